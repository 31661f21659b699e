import ArchiveSource
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundleValues
import Glibc

/// Flags of every command.
struct CommonOptions: ParsableArguments {
    @Flag(help: "Print one JSON object on stdout and nothing else.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Read flags from this JSON file, or from a file of variables for systemd (*.env).", valueName: "file"),
        completion: .file())
    var config: String?

    /// Reads the settings, and refuses a value of `--json` before the command changes anything.
    func settings() throws -> Settings {
        let settings = try Settings(config: config)
        _ = try settings.isOn("json", json)
        return settings
    }
}

/// Which version a command is about: the same flag everywhere.
struct VersionOption: ParsableArguments {
    @Option(help: ArgumentHelp("The version.", valueName: "version"))
    var version: String?

    func required(_ settings: Settings) throws -> String { try settings.required("version", version) }

    func semantic(_ settings: Settings) throws -> SemanticVersion {
        try settings.parsed("version", try required(settings)) { try SemanticVersion(parsingArgument: $0) }
    }
}

/// The help of flags that more than one group has.
///
/// The groups that most commands use contain no other group: a debug build of ArgumentParser validates a group several times for
/// each level that it is nested in, which takes longer than most commands.
extension ArgumentHelp {
    static let store = ArgumentHelp("Folder of the installed clients.", valueName: "dir")
    static let seed = ArgumentHelp("Folder of the client that the shell itself brings.", valueName: "dir")
    static let shellVersion = ArgumentHelp("Version of the shell that shows the client.", valueName: "version")
    static let sources = ArgumentHelp(
        "Whose clients may run, the first one first: meteor,archive by default. The store remembers it.",
        valueName: "list")
    static let caFile = ArgumentHelp("PEM file of the only certificate authorities to trust.", valueName: "file")
    static let proxy = ArgumentHelp(
        "Proxy in place of those of the environment, such as http://proxy.example.com:3128; none for no proxy.",
        valueName: "url")
    static let tokenFile = ArgumentHelp(
        "File or pipe with a bearer token, sent to the manifest's own origin only.", valueName: "file")
    static let maxArchiveSize = ArgumentHelp("Largest archive, such as 256MiB (the default).", valueName: "size")
    static let maxInstalledSize = ArgumentHelp(
        "Largest sum of the files, such as 512MiB (the default).", valueName: "size")
    static let maxFileSize = ArgumentHelp("Largest single file, such as 256MiB (the default).", valueName: "size")
    static let maxFiles = ArgumentHelp("Most files and folders; 20000 by default.", valueName: "n")
    static let maxDeltaMemory = ArgumentHelp(
        "Most memory for a delta, such as 64MiB (the default); 0 for none.", valueName: "size")
    static let credentialCommand = ArgumentHelp(
        "Command that prints the keys of a bucket as credential_process does, in place of AWS_ACCESS_KEY_ID and AWS_PROFILE.",
        valueName: "command")
}

/// Bounds of the device; raised here only, never by a manifest.
struct LimitOptions: ParsableArguments {
    @Option(help: .maxArchiveSize) var maxArchiveSize: String?
    @Option(help: .maxInstalledSize) var maxInstalledSize: String?
    @Option(help: .maxFileSize) var maxFileSize: String?
    @Option(help: .maxFiles) var maxFiles: String?
    @Option(help: .maxDeltaMemory) var maxDeltaMemory: String?

    func limits(_ settings: Settings) throws -> ArchiveLimits {
        var limits = ArchiveLimits()
        if let text = try settings.optional("max-delta-memory", maxDeltaMemory) {
            limits.deltaMemory = try settings.parsed("max-delta-memory", text) { try ByteCount(parsing: $0).bytes }
        }
        if let text = try settings.optional("max-archive-size", maxArchiveSize) {
            limits.archiveBytes = try settings.parsed("max-archive-size", text) { try ByteCount(parsing: $0).bytes }
        }
        if let text = try settings.optional("max-installed-size", maxInstalledSize) {
            limits.installedBytes = try settings.parsed("max-installed-size", text) { try ByteCount(parsing: $0).bytes }
        }
        if let text = try settings.optional("max-file-size", maxFileSize) {
            limits.fileBytes = try settings.parsed("max-file-size", text) { try ByteCount(parsing: $0).bytes }
        }
        if let text = try settings.optional("max-files", maxFiles) {
            limits.entries = try settings.integer("max-files", text, atLeast: 1)
        }
        return limits
    }
}

/// How to reach a server.
struct NetworkOptions: ParsableArguments {
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .tokenFile, completion: .file()) var tokenFile: String?

    /// How this program fetches and connects.
    func fetching(_ settings: Settings) throws -> FetchOptions {
        var way = WayOptions()
        (way.caFile, way.proxy) = (caFile, proxy)
        return try way.fetching(settings)
    }
}

/// The way out to the network.
struct WayOptions: ParsableArguments {
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?

    /// How this program fetches and connects.
    func fetching(_ settings: Settings) throws -> FetchOptions {
        var options = FetchOptions(userAgent: Product.userAgent)
        options.caFile = try settings.optional("ca-file", caFile).map(Self.authorities)
        options.proxy = try settings.optional("proxy", proxy).map(address)
        return options
    }

    /// A file that is not there, or holds something else, is a mistake here and not one of the network.
    private static func authorities(_ path: String) throws -> String {
        let bytes = try File.open(reading: path).readAll(maximumBytes: 16 << 20)
        if bytes.firstRange(of: "-----BEGIN ".utf8) == nil {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The CA file \(path) has no certificate that can be read: name a PEM file of certificate authorities.")
        }
        return path
    }

    /// The address for libcurl; empty is its word for none.
    private func address(_ text: String) throws -> String {
        if text == "none" { return "" }
        if let proxy, proxy.contains("@") {
            throw ValidationError(
                "--proxy with a password would stand in the list of processes: set CLIENTCTL_PROXY, or use the configuration file."
            )
        }
        let parts = text.split(separator: "://", maxSplits: 1)
        let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
        guard parts.count == 2, schemes.contains(String(parts[0])), !text.utf8.contains(where: { $0 <= 0x20 }) else {
            throw ValidationError(
                "--proxy takes the address of a proxy, such as http://proxy.example.com:3128 or socks5h://127.0.0.1:1080, or none."
            )
        }
        return text
    }
}

/// Which store.
struct StoreOptions: ParsableArguments {
    @Option(help: .store, completion: .directory) var store: String?
}

/// The shell that shows clients.
struct ShellOptions: ParsableArguments {
    @Option(help: .shellVersion) var shellVersion: String?
    @Option(help: .seed, completion: .directory) var seed: String?

    @Flag(help: "Compare every file with its receipt before a client is launched.")
    var verifyOnLaunch = false

    @Option(
        help: ArgumentHelp("A Meteor seed's compatibility version: android (the default) or ios.", valueName: "name"))
    var platform: String?

    @Option(help: .sources) var sources: String?
}

extension SourceOrder {
    /// Reads `--sources`: whose clients may run.
    static func chosen(_ sources: String?, _ settings: Settings) throws -> SourceOrder? {
        guard let text = try settings.optional("sources", sources) else { return nil }
        guard let order = SourceOrder(text.split(separator: ",").map(String.init)) else {
            throw ValidationError(
                "--sources takes a list of archive and meteor, such as archive,meteor; not "
                    + "\(UntrustedName.display(text)).")
        }
        return order
    }
}

/// Everything that `check` and `install` share.
struct UpdateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The manifest: a URL (https, http, file) or a path.", valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp(
            "Instead of --manifest, a channel document: FEED/channels/NAME.json, a URL or a path.",
            valueName: "url|file"), completion: .file())
    var channel: String?

    @Option(
        help: ArgumentHelp("A PEM public key, a folder of *.pem, or a trust root (trust.json).", valueName: "path"),
        completion: .file())
    var trust: String?

    @Option(
        help: ArgumentHelp(
            "The id that decides when this device gets a staged rollout. Devices need different ids. Default: the one given last, else one made from the machine's id.",
            valueName: "id"))
    var deviceId: String?

    @Option(
        help: ArgumentHelp(
            "The groups that this device is in, which releases may name, such as qa,eu; none for none. The store remembers them.",
            valueName: "name,..."))
    var group: String?

    @Option(
        help: ArgumentHelp(
            "ROOT_URL of a Meteor server: instead of --manifest and --trust, or beside them.", valueName: "url"))
    var meteor: String?

    @Option(help: ArgumentHelp("Compatibility version to read: android (the default) or ios.", valueName: "name"))
    var platform: String?

    @Option(
        help: ArgumentHelp(
            "compatible (the default) takes files that neither bytes nor labels prove; strict does not.",
            valueName: "mode"))
    var verifyAssets: String?

    @Option(help: .store, completion: .directory) var store: String?
    @Option(help: .shellVersion) var shellVersion: String?

    @Option(help: ArgumentHelp("The device's application, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @Option(help: .seed, completion: .directory) var seed: String?

    @Option(help: ArgumentHelp("Clients to keep; 3 by default.", valueName: "n"))
    var keep: String?

    @Option(help: .sources) var sources: String?
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .tokenFile, completion: .file()) var tokenFile: String?
    @Option(help: .maxArchiveSize) var maxArchiveSize: String?
    @Option(help: .maxInstalledSize) var maxInstalledSize: String?
    @Option(help: .maxFileSize) var maxFileSize: String?
    @Option(help: .maxFiles) var maxFiles: String?
    @Option(help: .maxDeltaMemory) var maxDeltaMemory: String?

    /// The flags that say how to reach a server.
    var network: NetworkOptions {
        var network = NetworkOptions()
        (network.caFile, network.proxy, network.tokenFile) = (caFile, proxy, tokenFile)
        return network
    }

    /// The flags that bound the device.
    var limits: LimitOptions {
        var limits = LimitOptions()
        (limits.maxArchiveSize, limits.maxInstalledSize) = (maxArchiveSize, maxInstalledSize)
        (limits.maxFileSize, limits.maxFiles, limits.maxDeltaMemory) = (maxFileSize, maxFiles, maxDeltaMemory)
        return limits
    }
}

/// Where a value that is not among the flags comes from: the environment, then the configuration file.
struct Settings {
    private static let maximumBytes = 1 << 20

    private let file: JSONObject
    private let path: String
    /// Where relative paths in the file begin; empty for the working folder.
    private let folder: String

    /// Reads the file named by `--config`, or the first default one that exists.
    init(config: String?) throws {
        if let unknown = FlagNames.unknownVariable() {
            throw UpdateFailure(
                .configInvalid, subject: UntrustedName.display(unknown),
                "The environment sets \(UntrustedName.display(unknown)), which is no flag: correct its name or remove it."
            )
        }
        let home =
            getenv("XDG_CONFIG_HOME").map { String(cString: $0) }
            ?? (getenv("HOME").map { String(cString: $0) + "/.config" })
        let defaults = ["/etc/clientctl.json"] + (home.map { [$0 + "/clientctl.json"] } ?? [])
        let named = try config ?? Self.environment("config")
        guard let path = named ?? defaults.first(where: File.exists) else {
            (file, path, folder) = ([:], "", "")
            return
        }
        self.path = path
        // The service manager reads a file of variables too, and leaves its paths as they are.
        folder =
            path.hasSuffix(".env")
            ? "" : path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        let source = try File.open(reading: path)
        // They name programs and keys.
        try OwnFile.require(source, with: "settings")
        let bytes = try source.readAll(maximumBytes: Self.maximumBytes)
        if path.hasSuffix(".env") {
            file = try Self.variables(bytes, of: path)
            return
        }
        do {
            file = try MemberReader(try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "file").object
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path, "The configuration \(path) cannot be read: \(error).")
        }
        if let unknown = file.members.first(where: { !FlagNames.all.contains($0.name) }) {
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(UntrustedName.display(unknown.name))",
                "The configuration \(path) sets \(UntrustedName.display(unknown.name)), which is no flag: "
                    + "its keys are flags without the dashes in front, such as \"shell-version\".")
        }
    }

    /// The settings of a file for systemd, by the names of their flags. Other variables are for the service.
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

    /// Whether a failure is reported in JSON, even if the arguments or the configuration are what failed.
    static func askForJSON(_ arguments: [String]) -> Bool {
        arguments.contains("--json") || (try? ofArguments(arguments).isOn("json", false)) ?? false
    }

    /// The settings beside `arguments`: those of the environment alone if the configuration cannot be read.
    static func ofArguments(_ arguments: [String]) -> Settings {
        let named = arguments.firstIndex(of: "--config").map { arguments[($0 + 1)...].first } ?? nil
        let joined = arguments.first { $0.hasPrefix("--config=") }.map { String($0.dropFirst("--config=".count)) }
        return (try? Settings(config: named ?? joined)) ?? Settings()
    }

    /// The environment alone.
    private init() {
        (file, path, folder) = ([:], "", "")
    }

    private static func environment(_ name: String) throws -> String? {
        guard let bytes = getenv(FlagNames.variable(name)) else { return nil }
        guard let text = String(validatingCString: bytes) else {
            throw UpdateFailure(
                .configInvalid, subject: FlagNames.variable(name),
                "\(FlagNames.variable(name)) is not UTF-8 text: correct it.")
        }
        return text
    }

    /// The value of flag `name`: as given, else from the environment, else from the file.
    func optional(_ name: String, _ given: String?) throws -> String? {
        if let value = try given ?? Self.environment(name) { return value }
        switch file[name] {
        case nil, .null?: return nil
        case .string(let text)?: return PathFlags.resolve(text, of: name, in: folder)
        case .integer(let number)?: return String(number)
        case .bool(let flag)?: return String(flag)
        default:
            throw UpdateFailure(
                .configInvalid, subject: "\(path): \(name)", "The configuration \(path) gives \(name) no plain value.")
        }
    }

    /// The values of a flag that may be repeated: as given, else one from the environment, else those of the file.
    func list(_ name: String, _ given: [String]) throws -> [String] {
        if try !given.isEmpty || Self.environment(name) != nil || file[name]?.arrayValue == nil {
            return given.isEmpty ? try optional(name, nil).map { [$0] } ?? [] : given
        }
        return try (file[name]?.arrayValue ?? []).map { value in
            guard let text = value.stringValue else {
                throw UpdateFailure(
                    .configInvalid, subject: "\(path): \(name)",
                    "The configuration \(path) gives \(name) something else than texts.")
            }
            return PathFlags.resolve(text, of: name, in: folder)
        }
    }

    /// The value of a flag that must come from somewhere.
    func required(_ name: String, _ given: String?) throws -> String {
        guard let value = try optional(name, given), !value.isEmpty else {
            throw MissingFlag(flags: [name])
        }
        return value
    }

    /// The folder that flag `name` gives, if it gives one, for what a command may change.
    func folders(_ name: String, _ given: String?) throws -> [String] {
        try optional(name, given).map { [$0] }?.filter { !$0.isEmpty } ?? []
    }

    /// Whether a switch is on.
    func isOn(_ name: String, _ given: Bool) throws -> Bool {
        if given { return true }
        guard let text = try optional(name, nil) else { return false }
        switch text.lowercased() {
        case "1", "true", "yes", "on": return true
        case "", "0", "false", "no", "off": return false
        default: throw ValidationError("--\(name) is true or false, not \(UntrustedName.display(text)).")
        }
    }

    /// The feed's folder; a URL would be taken for the name of a folder.
    func feedFolder(_ given: String?) throws -> String {
        let path = try required("feed", given)
        guard path.contains("://") else { return path }
        throw ValidationError(
            "A folder is served here, not the URL \(UntrustedName.display(path)).")
    }

    /// A flag's value turned into a value of ours; a refusal names the flag.
    func parsed<Value>(_ name: String, _ text: String, _ parse: (String) throws -> Value) throws -> Value {
        do {
            return try parse(text)
        } catch {
            throw ValidationError("--\(name): \(error)")
        }
    }

    /// How many clients are kept.
    func keep(_ given: String?) throws -> Int {
        try optional("keep", given).map { try integer("keep", $0, atLeast: 1) } ?? RetentionRule.defaultKeep
    }

    /// A port to listen on; 0 is any that is free.
    func port(_ given: String?) throws -> Int? {
        try optional("port", given).map { try integer("port", $0, atLeast: 0, atMost: Int(UInt16.max)) }
    }

    /// An integer of `minimum` to `maximum`.
    func integer(_ name: String, _ text: String, atLeast minimum: Int, atMost maximum: Int = .max) throws -> Int {
        guard let number = Int(text), minimum...maximum ~= number else {
            let range = maximum == .max ? "of \(minimum) or more" : "from \(minimum) to \(maximum)"
            throw ValidationError("--\(name) takes a whole number \(range), not \(UntrustedName.display(text)).")
        }
        return number
    }
}
