import ArchiveSource
import ArgumentParser
import BundleValues

/// Flags of every command.
struct CommonOptions: ParsableArguments {
    @Flag(help: "Print one JSON object on stdout and nothing else.")
    var json = false

    @Option(help: ArgumentHelp("Read flags from this JSON file.", valueName: "file"))
    var config: String?

    func settings() throws -> Settings { try Settings(config: config) }
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

/// Bounds of the device; raised here only, never by a manifest.
struct LimitOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Largest archive, such as 256MiB (the default).", valueName: "size"))
    var maxArchiveSize: String?

    @Option(help: ArgumentHelp("Largest sum of the files, such as 512MiB (the default).", valueName: "size"))
    var maxInstalledSize: String?

    @Option(help: ArgumentHelp("Largest single file, such as 256MiB (the default).", valueName: "size"))
    var maxFileSize: String?

    @Option(help: ArgumentHelp("Most files and folders; 20000 by default.", valueName: "n"))
    var maxFiles: String?

    func limits(_ settings: Settings) throws -> ArchiveLimits {
        var limits = ArchiveLimits()
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
    @Option(help: ArgumentHelp("PEM file of the only certificate authorities to trust.", valueName: "file"))
    var caFile: String?

    @Option(help: ArgumentHelp("File with a bearer token, sent to the manifest's own origin only.", valueName: "file"))
    var tokenFile: String?
}

/// Which store.
struct StoreOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Folder of the installed clients.", valueName: "dir"))
    var store: String?
}

/// The shell that shows clients.
struct ShellOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Version of the shell that shows the client.", valueName: "version"))
    var shellVersion: String?

    @Option(help: ArgumentHelp("Folder of the client that the shell itself brings.", valueName: "dir"))
    var seed: String?

    @Flag(help: "Compare every file with its receipt before a client is launched.")
    var verifyOnLaunch = false

    @Option(
        help: ArgumentHelp("A Meteor seed's compatibility version: android (the default) or ios.", valueName: "name"))
    var platform: String?

    @OptionGroup var sources: SourceOptions
}

/// A Meteor server that pushes code.
struct MeteorOptions: ParsableArguments {
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
}

/// Whose clients may run.
struct SourceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Whose clients may run, the first one first: meteor,archive by default. The store remembers it.",
            valueName: "list"))
    var sources: String?

    func order(_ settings: Settings) throws -> SourceOrder? {
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
    @Option(help: ArgumentHelp("The manifest: a URL (https, http, file) or a path.", valueName: "url|file"))
    var manifest: String?

    @Option(
        help: ArgumentHelp(
            "Instead of --manifest, a channel document: FEED/channels/NAME.json, a URL or a path.",
            valueName: "url|file"))
    var channel: String?

    @Option(help: ArgumentHelp("A PEM public key, a folder of *.pem, or a trust root (trust.json).", valueName: "path"))
    var trust: String?

    @Option(
        help: ArgumentHelp(
            "What draws this device into staged rollouts; by default what the store remembers, else the machine's id.",
            valueName: "id"))
    var deviceId: String?

    @OptionGroup var meteor: MeteorOptions
    @OptionGroup var place: StoreOptions

    @Option(help: ArgumentHelp("Version of the shell that shows the client.", valueName: "version"))
    var shellVersion: String?

    @Option(help: ArgumentHelp("The device's application, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @Option(help: ArgumentHelp("Folder of the client that the shell itself brings.", valueName: "dir"))
    var seed: String?

    @Option(help: ArgumentHelp("Clients to keep; 3 by default.", valueName: "n"))
    var keep: String?

    @OptionGroup var sources: SourceOptions
    @OptionGroup var network: NetworkOptions
    @OptionGroup var limits: LimitOptions
}
