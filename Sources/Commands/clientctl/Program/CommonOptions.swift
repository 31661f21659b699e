import BundleFormats
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundlePublish
import BundleValues
import CLibrary

/// The flags of every command.
struct CommonOptions: ParsableArguments {
    @Flag(help: "Print the result as one JSON object on standard output.")
    var json = false

    @Flag(
        name: .shortAndLong,
        help: "Print no notes and no progress on standard error, only warnings and errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Also print each HTTP request on standard error.")
    var verbose = false

    @Option(
        help: ArgumentHelp(
            "Read flags from this JSON file, or from a file of variables for systemd (*.env); none for no file (default: clientctl.json in the working folder for commands that publish, then /etc/clientctl.json, then ~/.config/clientctl.json).",
            valueName: "file"),
        completion: .file())
    var config: String?

    func validate() throws {
        if quiet && verbose { throw ValidationError("--quiet and --verbose exclude each other: leave one out.") }
        if quiet || verbose { Output.use(quiet ? .warnings : .requests) }
    }
}

/// The flag of the version that a command reads or changes.
struct VersionOption: ParsableArguments {
    @Option(help: ArgumentHelp("(required) Version, such as 1.5.0.", valueName: "version"), completion: .versions)
    var version: String?

    func required() throws -> String { try FlagValue.required(version, of: "version") }

    func semantic() throws -> SemanticVersion {
        try FlagValue.version(try required(), of: "version")
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
    static let feed = ArgumentHelp("(required) The feed: \(LocationAddress.forms).", valueName: "place")
    static let createdFeed = ArgumentHelp(
        "(required) The feed: \(LocationAddress.forms). A missing folder is created.", valueName: "place")
    static let channel = ArgumentHelp("(required) The channel.", valueName: "name")
    static let checkingTrust = ArgumentHelp(
        "Check signatures with this PEM key, folder of *.pem or trust root.", valueName: "path")
    static let appId = ArgumentHelp("The application, such as com.example.kiosk.", valueName: "id")
    static let signCommand = ArgumentHelp(
        "Command that signs instead of --key. It reads the message from stdin and writes the raw signature to stdout.",
        valueName: "command")
    static let signPublicKey = ArgumentHelp(
        "(required with --sign-command) The public key of that command (PEM).", valueName: "file")
    static let keep = ArgumentHelp("Number of clients to keep (default: 3).", valueName: "n")
    static let seedPlatform = ArgumentHelp(
        "Platform of the compatibility version of a Meteor seed: android or ios (default: android).",
        valueName: "name")
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
    static let maxFiles = ArgumentHelp("Maximum number of files, and of folders (default: 20000).", valueName: "n")
    static let maxDeltaMemory = ArgumentHelp(
        "Maximum memory for a delta; 0 disables deltas (default: 64MiB).", valueName: "size")
    static let credentialCommand = ArgumentHelp(
        "Command that prints the keys of the bucket in the format of credential_process, instead of AWS_ACCESS_KEY_ID and AWS_PROFILE.",
        valueName: "command")
}

/// The completions of flags that several groups have.
extension CompletionKind {
    static let platform = list(["android", "ios"])
    static let sources = list(["archive", "meteor", "archive,meteor", "meteor,archive"])
}

/// The limits of a device. Only these flags raise them, never a manifest.
struct LimitOptions: ParsableArguments {
    @Option(help: .maxArchiveSize) var maxArchiveSize: String?
    @Option(help: .maxInstalledSize) var maxInstalledSize: String?
    @Option(help: .maxFileSize) var maxFileSize: String?
    @Option(help: .maxFiles) var maxFiles: String?
    @Option(help: .maxDeltaMemory) var maxDeltaMemory: String?

    func limits() throws -> ArchiveLimits {
        var limits = ArchiveLimits()
        limits.deltaMemory = try FlagValue.bytes(maxDeltaMemory, of: "max-delta-memory") ?? limits.deltaMemory
        limits.archiveBytes = try FlagValue.bytes(maxArchiveSize, of: "max-archive-size") ?? limits.archiveBytes
        limits.installedBytes = try FlagValue.bytes(maxInstalledSize, of: "max-installed-size") ?? limits.installedBytes
        limits.fileBytes = try FlagValue.bytes(maxFileSize, of: "max-file-size") ?? limits.fileBytes
        limits.entries = try FlagValue.integer(maxFiles, of: "max-files", atLeast: 1) ?? limits.entries
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

    func fetching() throws -> FetchOptions {
        var way = WayOptions()
        (way.caFile, way.proxy) = (caFile, proxy)
        (way.clientCert, way.clientKey) = (clientCert, clientKey)
        return try way.fetching()
    }
}

/// The flags for connections to the network.
struct WayOptions: ParsableArguments {
    @Option(help: .caFile, completion: .file()) var caFile: String?
    @Option(help: .proxy) var proxy: String?
    @Option(help: .clientCert, completion: .file()) var clientCert: String?
    @Option(help: .clientKey, completion: .file()) var clientKey: String?

    /// Returns the options of all requests. Throws `ValidationError` or `UpdateFailure` if a flag has a wrong value.
    func fetching() throws -> FetchOptions {
        var options = FetchOptions.command
        options.caFile = try caFile.map(Self.authorities)
        options.proxy = try proxy.map(address)
        options.clientCertificate = try Wiring.clientCertificate(clientCert, key: clientKey)
        return options
    }

    /// Returns the path of the CA file. Throws if it cannot be read or has no certificate, because libcurl would report a failure of the
    /// network.
    private static func authorities(_ path: String) throws -> String {
        let bytes = try File.open(reading: path).readAll(maximumBytes: 16 << 20)
        try EditedText.requirePlain(bytes, in: path)
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
        if CommandLineFlags.contain("proxy"), text.contains("@") {
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

    func required() throws -> String { try FlagValue.required(store, of: "store") }
}

/// The flags of the shell that shows clients.
struct ShellOptions: ParsableArguments {
    @Option(help: .shellVersion) var shellVersion: String?
    @Option(help: .seed, completion: .directory) var seed: String?

    @Flag(help: "Compare every file with its install record before a client is launched.")
    var verifyOnLaunch = false

    @Option(help: .seedPlatform, completion: .platform) var platform: String?

    @Option(help: .sources, completion: .sources) var sources: String?
}

extension SourceOrder {
    /// Returns the order in `--sources`; nil if it is not set.
    static func chosen(_ sources: String?) throws -> SourceOrder? {
        guard let text = sources else { return nil }
        guard let order = SourceOrder(text.split(separator: ",").map(String.init)) else {
            throw ValidationError(
                "--sources takes a list of archive and meteor, such as archive,meteor, not "
                    + "\(UntrustedName.display(text)).")
        }
        return order
    }
}

extension FetchOptions {
    /// The options of requests without flags.
    static var command: FetchOptions {
        var options = FetchOptions(userAgent: Product.userAgent)
        options.log = Output.requestLog
        return options
    }
}
