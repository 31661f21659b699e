import ArchiveSource
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundleValues
import CLibrary

/// The flags of every command.
struct CommonOptions: ParsableArguments {
    @Flag(help: "Print the result as one JSON object on standard output.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Read flags from this JSON file, or from a file of variables for systemd (*.env) (default: clientctl.json in the working folder for commands that publish, then /etc/clientctl.json, then ~/.config/clientctl.json).",
            valueName: "file"),
        completion: .file())
    var config: String?

    /// Reads the settings. Throws `ValidationError` for a wrong value of `--json`, before the command changes anything.
    func settings() throws -> Settings {
        let settings = try Settings(config: config)
        _ = try settings.isOn("json", json)
        return settings
    }
}

/// The flag of the version that a command reads or changes.
struct VersionOption: ParsableArguments {
    @Option(help: ArgumentHelp("(required) Version, such as 1.5.0.", valueName: "version"))
    var version: String?

    func required(_ settings: Settings) throws -> String { try settings.required("version", version) }

    func semantic(_ settings: Settings) throws -> SemanticVersion {
        try settings.parsed("version", try required(settings)) { try SemanticVersion(parsingArgument: $0) }
    }
}

/// The help of flags that several groups have.
///
/// The groups of most commands do not contain other groups. A debug build of ArgumentParser validates a group several times for each
/// level of nesting, which takes longer than most commands.
extension ArgumentHelp {
    static let store = ArgumentHelp("(required) Store: the folder of the installed clients.", valueName: "dir")
    static let seed = ArgumentHelp("Folder of the seed, the client that is part of the shell.", valueName: "dir")
    static let shellVersion = ArgumentHelp(
        "Version of the shell, the program around the page. A kiosk needs none (default: 0.0.0; doctor: the last one).",
        valueName: "version")
    static let sources = ArgumentHelp(
        "Sources of clients that may run, the preferred one first. The store keeps the list (default: meteor,archive).",
        valueName: "list")
    static let caFile = ArgumentHelp(
        "PEM file of certificate authorities to trust instead of those of the system.", valueName: "file")
    static let proxy = ArgumentHelp(
        "Proxy, such as http://proxy.example.com:3128, or none for no proxy (default: the proxy of the environment).",
        valueName: "url")
    static let tokenFile = ArgumentHelp(
        "File or pipe with a bearer token. It is sent only to the origin of the feed or Meteor server.",
        valueName: "file")
    static let maxArchiveSize = ArgumentHelp("Maximum size of an archive (default: 256MiB).", valueName: "size")
    static let maxInstalledSize = ArgumentHelp(
        "Maximum size of all files of a client (default: 512MiB).", valueName: "size")
    static let maxFileSize = ArgumentHelp("Maximum size of a file (default: 256MiB).", valueName: "size")
    static let maxFiles = ArgumentHelp("Maximum number of files and folders (default: 20000).", valueName: "n")
    static let maxDeltaMemory = ArgumentHelp(
        "Maximum memory for a delta; 0 disables deltas (default: 64MiB).", valueName: "size")
    static let credentialCommand = ArgumentHelp(
        "Command that prints the keys of the bucket in the format of credential_process, instead of AWS_ACCESS_KEY_ID and AWS_PROFILE.",
        valueName: "command")
}

/// The limits of a device. Only these flags raise them, never a manifest.
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

/// The flags for requests to a server.
struct NetworkOptions: ParsableArguments {
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .tokenFile, completion: .file()) var tokenFile: String?
    @Option(help: .clientCert, completion: .file()) var clientCert: String?
    @Option(help: .clientKey, completion: .file()) var clientKey: String?
    @Option(help: .headerFile, completion: .file()) var headerFile: String?

    func fetching(_ settings: Settings) throws -> FetchOptions {
        var way = WayOptions()
        (way.caFile, way.proxy) = (caFile, proxy)
        (way.clientCert, way.clientKey) = (clientCert, clientKey)
        return try way.fetching(settings)
    }
}

/// The flags for connections to the network.
struct WayOptions: ParsableArguments {
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .clientCert, completion: .file()) var clientCert: String?
    @Option(help: .clientKey, completion: .file()) var clientKey: String?

    /// Returns the options of all requests. Throws `ValidationError` or `UpdateFailure` if a flag has a wrong value.
    func fetching(_ settings: Settings) throws -> FetchOptions {
        var options = FetchOptions(userAgent: Product.userAgent)
        options.caFile = try settings.optional("ca-file", caFile).map(Self.authorities)
        options.proxy = try settings.optional("proxy", proxy).map(address)
        options.clientCertificate = try Wiring.clientCertificate(clientCert, clientKey, settings)
        return options
    }

    /// Returns the path of the CA file. Throws if it cannot be read or has no certificate, because libcurl would report a failure of the
    /// network.
    private static func authorities(_ path: String) throws -> String {
        let bytes = try File.open(reading: path).readAll(maximumBytes: 16 << 20)
        if bytes.firstRange(of: "-----BEGIN ".utf8) == nil {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The CA file \(path) has no certificate. Give a PEM file of certificate authorities.")
        }
        return path
    }

    /// Returns the proxy for libcurl; the empty string disables proxies.
    private func address(_ text: String) throws -> String {
        if text == "none" { return "" }
        if let proxy, proxy.contains("@") {
            throw ValidationError(
                "--proxy would show a password in the list of processes. Set CLIENTCTL_PROXY, or use the configuration file."
            )
        }
        let parts = text.split(separator: "://", maxSplits: 1)
        let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
        guard parts.count == 2, schemes.contains(String(parts[0])), !text.utf8.contains(where: { $0 <= 0x20 }) else {
            throw ValidationError(
                "--proxy takes none or the URL of a proxy, such as http://proxy.example.com:3128 or socks5h://127.0.0.1:1080."
            )
        }
        return text
    }
}

/// The flag of the store.
struct StoreOptions: ParsableArguments {
    @Option(help: .store, completion: .directory) var store: String?
}

/// The flags of the shell that shows clients.
struct ShellOptions: ParsableArguments {
    /// The version of a shell that has none of its own, such as a browser.
    static let noVersion = "0.0.0"

    @Option(help: .shellVersion) var shellVersion: String?
    @Option(help: .seed, completion: .directory) var seed: String?

    @Flag(help: "Compare every file with its install record before a client is launched.")
    var verifyOnLaunch = false

    @Option(
        help: ArgumentHelp(
            "Platform of the compatibility version of a Meteor seed: android or ios (default: android).",
            valueName: "name"))
    var platform: String?

    @Option(help: .sources) var sources: String?
}

extension SourceOrder {
    /// Returns the order in `--sources`; nil if it is not set.
    static func chosen(_ sources: String?, _ settings: Settings) throws -> SourceOrder? {
        guard let text = try settings.optional("sources", sources) else { return nil }
        guard let order = SourceOrder(text.split(separator: ",").map(String.init)) else {
            throw ValidationError(
                "--sources takes a list of archive and meteor, such as archive,meteor, not "
                    + "\(UntrustedName.display(text)).")
        }
        return order
    }
}

/// The flags that `check`, `install`, `serve` and `doctor` share.
struct UpdateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Manifest of the feed: a URL (https, http, file) or a path. Give --manifest, --channel or --meteor.",
            valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp(
            "Channel file of the feed, FEED/channels/NAME.json: a URL or a path.",
            valueName: "url|file"), completion: .file())
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "(required with --manifest or --channel) Keys of the publisher: a PEM public key, a folder of *.pem, or a trust root (trust.json).",
            valueName: "path"),
        completion: .file())
    var trust: String?

    @Option(
        help: ArgumentHelp(
            "ID that decides when this device gets a staged rollout. Every device needs its own (default: the last one, or one from the ID of the machine).",
            valueName: "id"))
    var deviceId: String?

    @Option(
        help: ArgumentHelp(
            "Groups of this device, such as qa,eu, or none. Releases may be for groups only. The store keeps the list.",
            valueName: "name,..."))
    var group: String?

    @Option(
        help: ArgumentHelp(
            "ROOT_URL of a Meteor server, instead of a feed or in addition to it.", valueName: "url"))
    var meteor: String?

    @Option(
        help: ArgumentHelp(
            "Platform of the Meteor compatibility version: android or ios (default: android).", valueName: "name")
    )
    var platform: String?

    @Option(
        help: ArgumentHelp(
            "Check of Meteor files: compatible accepts a file that neither its bytes nor its labels prove; strict rejects it (default: compatible).",
            valueName: "mode"))
    var verifyAssets: String?

    @Option(help: .store, completion: .directory) var store: String?
    @Option(help: .shellVersion) var shellVersion: String?

    @Option(help: ArgumentHelp("Application of the device, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @Option(help: .seed, completion: .directory) var seed: String?

    @Option(help: ArgumentHelp("Number of clients to keep (default: 3).", valueName: "n"))
    var keep: String?

    @Option(help: .sources) var sources: String?
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .tokenFile, completion: .file()) var tokenFile: String?
    @Option(help: .clientCert, completion: .file()) var clientCert: String?
    @Option(help: .clientKey, completion: .file()) var clientKey: String?
    @Option(help: .headerFile, completion: .file()) var headerFile: String?
    @Option(help: .maxRate) var maxRate: String?
    @Option(help: .downloadWindow) var downloadWindow: String?
    @Option(help: .metered) var metered: String?
    @Option(help: .meteredBudget) var meteredBudget: String?
    @Option(help: .deltas) var deltas: String?
    @Option(help: .mirror) var mirror: [String] = []
    @Option(help: .maxArchiveSize) var maxArchiveSize: String?
    @Option(help: .maxInstalledSize) var maxInstalledSize: String?
    @Option(help: .maxFileSize) var maxFileSize: String?
    @Option(help: .maxFiles) var maxFiles: String?
    @Option(help: .maxDeltaMemory) var maxDeltaMemory: String?

    /// The flags for requests to a server.
    var network: NetworkOptions {
        var network = NetworkOptions()
        (network.caFile, network.proxy, network.tokenFile) = (caFile, proxy, tokenFile)
        (network.clientCert, network.clientKey, network.headerFile) = (clientCert, clientKey, headerFile)
        return network
    }

    /// The limits of the device.
    var limits: LimitOptions {
        var limits = LimitOptions()
        (limits.maxArchiveSize, limits.maxInstalledSize) = (maxArchiveSize, maxInstalledSize)
        (limits.maxFileSize, limits.maxFiles, limits.maxDeltaMemory) = (maxFileSize, maxFiles, maxDeltaMemory)
        return limits
    }
}

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
