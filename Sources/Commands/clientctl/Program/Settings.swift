import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import CLibrary

/// The values of flags that are not on the command line: from the environment, then from the configuration file.
struct Settings {
    private static let maximumBytes = 1 << 20

    private let file: JSONObject
    private let path: String
    /// The folder of relative paths in the file; empty for the working folder.
    private let folder: String

    /// Reads the file `config`, the project file, or the first default file that exists. Throws `UpdateFailure` if the environment or the file has an unknown
    /// name.
    init(config: String?) throws {
        if let unknown = FlagNames.unknownVariable() {
            throw UpdateFailure(
                .configInvalid, subject: UntrustedName.display(unknown),
                "The environment sets \(UntrustedName.display(unknown)), which is not a flag. Correct its name or remove it."
            )
        }
        let home =
            getenv("XDG_CONFIG_HOME").map { String(cString: $0) }
            ?? (getenv("HOME").map { String(cString: $0) + "/.config" })
        let defaults = ["/etc/clientctl.json"] + (home.map { [$0 + "/clientctl.json"] } ?? [])
        let named = try config ?? Self.environment("config")
        let project = ProjectFile.path(for: CommandLine.arguments.dropFirst())
        guard let path = named ?? project ?? defaults.first(where: File.exists) else {
            (file, path, folder) = ([:], "", "")
            return
        }
        self.path = path
        // The service manager also reads a file of variables, and does not change its paths.
        folder =
            path.hasSuffix(".env")
            ? "" : path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        let ignored =
            named == nil && path == project ? ProjectFile.ignoredFlags(for: CommandLine.arguments.dropFirst()) : []
        let source = try File.open(reading: path)
        // The settings name programs and keys.
        try OwnFile.require(source, with: "settings")
        let bytes = try source.readAll(maximumBytes: Self.maximumBytes)
        if path.hasSuffix(".env") {
            file = try Self.variables(bytes, of: path)
            return
        }
        var members: JSONObject
        do {
            members = try MemberReader(try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "file").object
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path, "The configuration \(path) cannot be read: \(error).")
        }
        for name in ignored { members[name] = .null }
        file = members
        if let unknown = file.members.first(where: { !FlagNames.all.contains($0.name) }) {
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(UntrustedName.display(unknown.name))",
                "The configuration \(path) sets \(UntrustedName.display(unknown.name)), which is not a flag: "
                    + "its keys are flags without the leading dashes, such as \"shell-version\".")
        }
    }

    /// Returns the settings in a file for systemd, by the names of their flags. Other variables are for the service.
    private static func variables(_ bytes: [UInt8], of path: String) throws -> JSONObject {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(.configInvalid, subject: path, "The configuration \(path) is not UTF-8 text.")
        }
        var file: JSONObject = [:]
        for (name, value) in EnvironmentFile.parse(text) where name.hasPrefix(FlagNames.variables) {
            guard let flag = FlagNames.all.first(where: { FlagNames.variable($0) == name }) else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path): \(UntrustedName.display(name))",
                    "The configuration \(path) sets \(UntrustedName.display(name)), which is not a flag. Correct its name or remove it."
                )
            }
            file[flag] = .string(value)
        }
        return file
    }

    /// Returns true if a failure is reported in JSON, even if the arguments or the configuration are invalid.
    static func askForJSON(_ arguments: [String]) -> Bool {
        arguments.contains("--json") || (try? ofArguments(arguments).isOn("json", false)) ?? false
    }

    /// Returns the settings that add to `arguments`; only those of the environment if the configuration cannot be read.
    static func ofArguments(_ arguments: [String]) -> Settings {
        let named = arguments.firstIndex(of: "--config").map { arguments[($0 + 1)...].first } ?? nil
        let joined = arguments.first { $0.hasPrefix("--config=") }.map { String($0.dropFirst("--config=".count)) }
        return (try? Settings(config: named ?? joined)) ?? Settings()
    }

    /// Creates settings from the environment only.
    private init() {
        (file, path, folder) = ([:], "", "")
    }

    private static func environment(_ name: String) throws -> String? {
        guard let bytes = getenv(FlagNames.variable(name)) else { return nil }
        guard let text = String(validatingCString: bytes) else {
            throw UpdateFailure(
                .configInvalid, subject: FlagNames.variable(name),
                "\(FlagNames.variable(name)) is not UTF-8 text. Correct it.")
        }
        return text
    }

    /// Returns the value of the flag `name`: `given`, otherwise that of the environment, otherwise that of the file.
    func optional(_ name: String, _ given: String?) throws -> String? {
        if let value = try given ?? Self.environment(name) { return value }
        switch file[name] {
        case nil, .null?: return nil
        case .string(let text)?: return PathFlags.resolve(text, of: name, in: folder)
        case .integer(let number)?: return String(number)
        case .bool(let flag)?: return String(flag)
        default:
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(name)",
                "The value of \(name) in the configuration \(path) is not a text, a whole number or a Boolean.")
        }
    }

    /// Returns the values of a repeatable flag: `given`, otherwise the one of the environment, otherwise those of the file.
    func list(_ name: String, _ given: [String]) throws -> [String] {
        if try !given.isEmpty || Self.environment(name) != nil || file[name]?.arrayValue == nil {
            return given.isEmpty ? try optional(name, nil).map { [$0] } ?? [] : given
        }
        return try (file[name]?.arrayValue ?? []).map { value in
            guard let text = value.stringValue else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path): \(name)",
                    "The value of \(name) in the configuration \(path) is not a list of texts.")
            }
            return PathFlags.resolve(text, of: name, in: folder)
        }
    }

    /// Returns the value of a required flag. Throws `MissingFlag` if it is not set or empty.
    func required(_ name: String, _ given: String?) throws -> String {
        guard let value = try optional(name, given), !value.isEmpty else {
            throw MissingFlag(flags: [name])
        }
        return value
    }

    /// Returns the folder in the flag `name`, for the sandbox of a command; empty if it is not set.
    func folders(_ name: String, _ given: String?) throws -> [String] {
        try optional(name, given).map { [$0] }?.filter { !$0.isEmpty } ?? []
    }

    /// Returns true if a switch is on. Throws `ValidationError` if its value is not a Boolean.
    func isOn(_ name: String, _ given: Bool) throws -> Bool {
        if given { return true }
        guard let text = try optional(name, nil) else { return false }
        switch text.lowercased() {
        case "1", "true", "yes", "on": return true
        case "", "0", "false", "no", "off": return false
        default: throw ValidationError("--\(name) is true or false, not \(UntrustedName.display(text)).")
        }
    }

    /// Returns the folder of the feed. Throws `ValidationError` for a URL, which would otherwise be the name of a folder.
    func feedFolder(_ given: String?) throws -> String {
        let path = try required("feed", given)
        guard path.contains("://") else { return path }
        throw ValidationError(
            "This command serves a folder, not the URL \(UntrustedName.display(path)).")
    }

    /// Returns the parsed value of a flag. Throws `ValidationError` with the name of the flag if parsing fails.
    func parsed<Value>(_ name: String, _ text: String, _ parse: (String) throws -> Value) throws -> Value {
        do {
            return try parse(text)
        } catch {
            throw ValidationError("--\(name): \(error)")
        }
    }

    /// Returns the number of clients to keep.
    func keep(_ given: String?) throws -> Int {
        try optional("keep", given).map { try integer("keep", $0, atLeast: 1) } ?? RetentionRule.defaultKeep
    }

    /// Returns the port to listen on; 0 is any free port.
    func port(_ given: String?) throws -> Int? {
        try optional("port", given).map { try integer("port", $0, atLeast: 0, atMost: Int(UInt16.max)) }
    }

    /// Returns an integer from `minimum` to `maximum`. Throws `ValidationError` otherwise.
    func integer(_ name: String, _ text: String, atLeast minimum: Int, atMost maximum: Int = .max) throws -> Int {
        guard let number = Int(text), minimum...maximum ~= number else {
            let range = maximum == .max ? "of \(minimum) or more" : "from \(minimum) to \(maximum)"
            throw ValidationError("--\(name) takes a whole number \(range), not \(UntrustedName.display(text)).")
        }
        return number
    }
}
