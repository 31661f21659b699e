import ArgumentParser
import BundleDisk
import BundleValues
import CLibrary

/// The values of flags that are not on the command line: from the environment, then from the configuration file.
///
/// They become arguments before the command line is parsed, so commands only see flags.
struct Settings {
    private static let maximumBytes = 1 << 20

    private let file: JSONObject
    private let path: String
    /// The folder of relative paths in the file; empty for the working folder.
    private let folder: String
    /// Whether the user has accepted the project file; nil if the settings are not from a project file that was found.
    private let isAccepted: Bool?

    /// Reads the file of `--config`, the project file, or the first default file that exists. Throws `UpdateFailure` if the environment or
    /// the file has an unknown name.
    init() throws {
        if let unknown = FlagNames.unknownVariable() {
            throw UpdateFailure(
                .configInvalid, subject: UntrustedName.display(unknown),
                "The environment sets \(UntrustedName.display(unknown)), which is not a flag. \(FlagNames.advice(about: unknown))"
            )
        }
        let home = HomeFolder.path("XDG_CONFIG_HOME", else: ".config")
        let defaults = ["/etc/clientctl.json"] + (home.map { [$0 + "/clientctl.json"] } ?? [])
        let named = try CommandLineFlags.value(of: "config") ?? Self.environment("config")
        if named == "" {
            throw UpdateFailure(
                .configInvalid, subject: "config",
                "--config or \(FlagNames.variable("config")) is empty: name a file, or give none.")
        }
        let project = ProjectFile.path(for: CommandLine.arguments.dropFirst())
        guard named != "none", let path = named ?? project ?? defaults.first(where: File.exists) else {
            (file, path, folder, isAccepted) = ([:], "", "", nil)
            return
        }
        self.path = path
        // The service manager also reads a file of variables, and does not change its paths.
        folder =
            path.hasSuffix(".env")
            ? "" : path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        let isFound = named == nil && path == project
        let bytes = try Self.bytes(at: path)
        isAccepted = isFound ? ProjectConsent(to: bytes)?.isGiven ?? false : nil
        let ignored = isFound ? ProjectFile.ignoredFlags(for: CommandLine.arguments.dropFirst()) : []
        file = try Self.members(in: bytes, of: path, without: ignored)
    }

    /// Returns the project file of the working folder: its bytes, and the settings in them.
    static func project() throws -> (bytes: [UInt8], members: JSONObject) {
        let bytes = try bytes(at: ProjectFile.name)
        return (bytes, try members(in: bytes, of: ProjectFile.name, without: []))
    }

    private static func bytes(at path: String) throws -> [UInt8] {
        let source = try File.open(reading: path)
        // The settings name programs and keys.
        try OwnFile.require(source, with: "settings")
        return try EditedText.bytes(of: source.readAll(maximumBytes: maximumBytes), in: path)
    }

    /// Returns the settings in `bytes`, the content of the file at `path`, without those in `ignored`.
    private static func members(in bytes: [UInt8], of path: String, without ignored: [String]) throws -> JSONObject {
        if path.hasSuffix(".env") { return try variables(bytes, of: path) }
        var file: JSONObject
        do {
            file = try MemberReader(try JSONScanner.parse(bytes, maximumBytes: maximumBytes), of: "file").object
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path, "The configuration \(path) cannot be read: \(error).")
        }
        for name in ignored { file[name] = .null }
        if let unknown = file.members.first(where: { !FlagNames.all.contains($0.name) }) {
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(UntrustedName.display(unknown.name))",
                "The configuration \(path) sets \(UntrustedName.display(unknown.name)), which is not a flag"
                    + (FlagNames.similar(to: unknown.name, in: FlagNames.all.sorted()).map { ". Did you mean \($0)?" }
                        ?? ": its keys are flags without the leading dashes, such as \"shell-version\"."))
        }
        return file
    }

    /// Returns the settings in a file for systemd, by the names of their flags. Other variables are for the service.
    private static func variables(_ bytes: [UInt8], of path: String) throws -> JSONObject {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(.configInvalid, subject: path, "The configuration \(path) is not UTF-8 text.")
        }
        var file: JSONObject = [:]
        let content = EnvironmentFile.parse(text)
        if let line = content.ignored.first(where: { $0.contains(OwnVariables.prefix) }) {
            let shown = UntrustedName.display(line)
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(shown)",
                "The configuration \(path) has a line that the service manager ignores: \(shown). Write \(OwnVariables.prefix)NAME=value, "
                    + "without export.")
        }
        for (name, value) in content.variables where name.hasPrefix(OwnVariables.prefix) {
            guard let flag = FlagNames.all.first(where: { FlagNames.variable($0) == name }) else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path): \(UntrustedName.display(name))",
                    "The configuration \(path) sets \(UntrustedName.display(name)), which is not a flag. \(FlagNames.advice(about: name))"
                )
            }
            file[flag] = .string(value)
        }
        return file
    }

    /// Returns the flags of `command` that are set and not on the command line, as arguments.
    static func arguments(of command: any ParsableCommand.Type) throws -> [String] {
        let settings = try Settings()
        // Reading the flags of a command takes longer than most commands.
        if settings.file.members.isEmpty, OwnVariables.names.isEmpty { return [] }
        return try FlagNames.kinds(of: command.init()).sorted { $0.key < $1.key }.flatMap { name, kind in
            if name == "config" || CommandLineFlags.contain(name) || isReplaced(name) { return [String]() }
            if kind == .toggle { return try settings.isOn(name) ? ["--\(name)"] : [] }
            // The parser refuses an empty value after an equals sign.
            return try settings.values(of: name, isRepeatable: kind == .list).flatMap {
                $0.isEmpty ? ["--\(name)", ""] : ["--\(name)=\($0)"]
            }
        }
    }

    /// Flags that exclude each other. If the command line has one, the environment and the file do not set the others.
    private static let alternatives = [
        ["manifest", "channel", "meteor"], ["urgent", "no-urgent"], ["max-failures", "allow-failures"],
        ["quiet", "verbose"],
    ]

    private static func isReplaced(_ name: String) -> Bool {
        alternatives.contains { $0.contains(name) && $0.contains(where: CommandLineFlags.contain) }
    }

    /// Returns true if a failure is reported in JSON, even if the arguments or the configuration are invalid.
    static var asksForJSON: Bool { CommandLineFlags.contain("json") || (try? readable.isOn("json")) ?? false }

    /// The settings; only those of the environment if the configuration cannot be read.
    static var readable: Settings { (try? Settings()) ?? Settings(file: [:]) }

    /// Creates settings from the environment and the members of `file`.
    private init(file: JSONObject) {
        (self.file, path, folder, isAccepted) = (file, "", "", nil)
    }

    /// Returns the value of a flag that the command does not have itself.
    static func value(of name: String) throws -> String? {
        try Settings().values(of: name, isRepeatable: false).first
    }

    private static func environment(_ name: String) throws -> String? {
        guard let bytes = OwnVariables.value(of: FlagNames.variable(name)) else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(
                .configInvalid, subject: FlagNames.variable(name),
                "\(FlagNames.variable(name)) is not UTF-8 text. Correct it.")
        }
        return text
    }

    /// Returns the values of the flag `name`; an empty array if it is not set.
    func values(of name: String, isRepeatable: Bool) throws -> [String] {
        if let value = try Self.environment(name) { return [value] }
        let values = try fileValues(of: name, isRepeatable: isRepeatable)
        if let isAccepted, !values.isEmpty { try ProjectFile.use(values, for: name, isAccepted: isAccepted) }
        return values
    }

    private func fileValues(of name: String, isRepeatable: Bool) throws -> [String] {
        switch file[name] {
        case nil, .null?: return []
        case .string(let text)?: return [PathFlags.resolve(text, of: name, in: folder)]
        case .integer(let number)?: return [String(number)]
        case .bool(let flag)?: return [String(flag)]
        case .array(let values)? where isRepeatable:
            return try values.map { value in
                guard let text = value.stringValue else {
                    throw UpdateFailure(
                        .configInvalid, subject: "\(path): \(name)",
                        "The value of \(name) in the configuration \(path) is not a list of texts.")
                }
                return PathFlags.resolve(text, of: name, in: folder)
            }
        default:
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(name)",
                "The value of \(name) in the configuration \(path) is not a text, a whole number or a Boolean.")
        }
    }

    /// Returns true if the switch `name` is on. Throws `ValidationError` if its value is not a Boolean.
    func isOn(_ name: String) throws -> Bool {
        guard let text = try values(of: name, isRepeatable: false).first else { return false }
        switch text.lowercased() {
        case "1", "true", "yes", "on": return true
        case "", "0", "false", "no", "off": return false
        default: throw ValidationError("--\(name) is true or false, not \(UntrustedName.display(text)).")
        }
    }
}

/// Parses a file of variables as systemd does (`EnvironmentFile=` in systemd.exec(5)): one `NAME=value` a line, with quotes and comments.
private enum EnvironmentFile {
    /// A file of variables.
    struct Content {
        /// The variables in their order.
        var variables: [(name: String, value: String)] = []
        /// The beginnings of lines that are not assignments, such as `export NAME`. The service manager ignores these lines.
        var ignored: [String] = []
    }

    /// Returns the variables of a file. The values of names in `ignored` are not part of the result.
    static func parse(_ text: String) -> Content {
        var content = Content()
        var rest = Substring(text.replacing("\r\n", with: "\n"))
        while !rest.isEmpty {
            rest = rest.drop { $0.isWhitespace }
            if rest.first == "#" || rest.first == ";" {
                rest = rest.drop { $0 != "\n" }
                continue
            }
            let name = rest.prefix { $0 != "=" && $0 != "\n" }
            rest = rest[name.endIndex...]
            let trimmed = String(name.reversed().drop { $0.isWhitespace }.reversed())
            guard rest.first == "=" else {
                if !trimmed.isEmpty { content.ignored.append(trimmed) }
                continue
            }
            rest = rest.dropFirst()
            let value = value(&rest)
            if trimmed.isEmpty || trimmed.contains(where: \.isWhitespace) {
                content.ignored.append(trimmed)
            } else {
                content.variables.append((trimmed, value))
            }
        }
        return content
    }

    /// Removes a value from the start of `rest`: quoted and plain parts up to the end of the line, which a backslash continues.
    private static func value(_ rest: inout Substring) -> String {
        var value = ""
        // Unquoted white space at the end is not part of the value.
        var kept = 0
        rest = rest.drop { $0 == " " || $0 == "\t" }
        while let character = rest.popFirst(), character != "\n" {
            switch character {
            case "\\":
                guard let next = rest.popFirst() else { break }
                if next != "\n" { value.append(next) }
                kept = value.count
            case "'", "\"":
                while let quoted = rest.popFirst(), quoted != character {
                    if quoted == "\\", character == "\"", let next = rest.first, "\"\\`$\n".contains(next) {
                        rest.removeFirst()
                        if next != "\n" { value.append(next) }
                    } else {
                        value.append(quoted)
                    }
                }
                kept = value.count
            default:
                value.append(character)
                if !character.isWhitespace { kept = value.count }
            }
        }
        return String(value.prefix(kept))
    }
}
