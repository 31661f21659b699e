import ArchiveSource
import ArgumentParser
import BundleArchive
import BundleValues
import BundleCore
import BundleDisk
import BundlePublish
import BundleSigning

struct Publish: AsyncParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Pack a built web folder, sign it, and write it into a feed.",
        discussion: """
            The feed is a static folder. Serve it with any web server, or copy it to a
            bucket with `clientctl feed copy`. Publishing the same content again changes
            nothing. Different content under a published version is refused. If
            SOURCE_DATE_EPOCH is set, it is the time of the release and its archive.
            Channel files always have the time of this machine's clock.

            Examples:
              clientctl publish dist --version 1.5.0 --feed feed \\
                --key release.key.pem
              clientctl publish dist --version 1.5.1 --feed feed \\
                --key release.key.pem --dry-run
              clientctl publish dist --version 1.5.1 --feed feed \\
                --key release.key.pem --app-id com.example.kiosk \\
                --channel stable --channel-key channel.key.pem --rollout 10% --create
              clientctl publish dist --version 1.5.1 --feed feed \\
                --sign-command './sign-with-token' --sign-public-key token.pub.pem

            The command never publishes private key files, or the feed itself if it is
            inside the folder. It refuses keys in scripts and pages, repositories,
            node_modules, .env and similar files, other feeds and native code unless
            --allow names them. It publishes anything else that looks wrong with a
            warning. The release does not contain the files that --exclude and --drop
            match. Give verify --rebuild the same flags.

            Devices with one of the last three releases download a delta, which is smaller
            than the archive. --delta-from picks other base versions. --no-deltas skips
            deltas.

            If the feed has no trust root, sign with a key that signed the current
            release. Otherwise give the keys that devices trust with --trust.

            --channel also adds the release to FEED/channels/NAME.json, for the percentage
            of devices that --rollout sets. Publishing again never changes a rollout; use
            `clientctl release rollout`. Devices that follow manifest.json ignore
            rollouts.
            """)

    @Argument(help: "The built web folder, which contains index.html.", completion: .directory)
    var directory: String

    @OptionGroup var version: VersionOption

    @Option(
        help: ArgumentHelp(
            "(required) The feed: a folder or s3://bucket/prefix. A missing folder is created.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Option(
        help: ArgumentHelp(
            "(required, or --sign-command) The private key (PEM). Repeat it if several keys must sign.",
            valueName: "file"),
        completion: .file())
    var key: [String] = []

    @Option(
        help: ArgumentHelp(
            "Command that signs instead of --key. It reads the message from stdin and writes the raw signature to stdout.",
            valueName: "command"))
    var signCommand: [String] = []

    @Option(
        help: ArgumentHelp("(required with --sign-command) The public key of that command (PEM).", valueName: "file"),
        completion: .file())
    var signPublicKey: [String] = []

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var channelOptions: PublishChannelOptions

    @Option(
        help: ArgumentHelp("Lowest shell version that can show the release (default: 0.0.0).", valueName: "version"))
    var minShell: String?

    @Option(
        help: ArgumentHelp("Highest shell version that can show the release (default: no limit).", valueName: "version")
    )
    var maxShell: String?

    @Option(help: ArgumentHelp("The application, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @OptionGroup var excluding: ExcludeOptions
    @OptionGroup var looking: InspectionOptions

    @Option(
        help: ArgumentHelp(
            "Publish files with this name or path even though they look like a mistake, such as node_modules. Repeatable.",
            valueName: "pattern"))
    var allow: [String] = []

    @Option(
        help: ArgumentHelp(
            "Address, such as /api/health or an https URL, that the page has to reach before a device confirms its start. Repeat it for more.",
            valueName: "url"))
    var requiresEndpoint: [String] = []

    @Option(help: ArgumentHelp("File with release notes.", valueName: "file"), completion: .file())
    var notes: String?

    @Option(
        help: "The archive format: tar.zst, tar.gz, zip or tar (default: tar.zst).",
        completion: .list(["tar.zst", "tar.gz", "zip", "tar"]))
    var format: String?

    @Option(
        help: ArgumentHelp(
            "Compression level, 1 to 19 for zstd and 1 to 9 for gzip and zip. (default: \(ReleaseOptions.defaultZstdLevel) or 9)",
            valueName: "n"))
    var level: String?

    @Option(
        help: ArgumentHelp(
            "log2 of the zstd window, which a device needs as memory (default: \(ReleaseOptions.defaultWindowLog)).",
            valueName: "n"))
    var windowLog: String?

    @OptionGroup var deltas: DeltaOptions

    @Flag(help: "Skip deltas.")
    var noDeltas = false

    @Flag(help: "Show what would be written, and write nothing.")
    var dryRun = false

    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var after: AfterOptions
    @OptionGroup var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func needs(_ settings: Settings) throws -> (confinement: Confinement, startsPrograms: Bool) {
        let signs = try settings.list("sign-command", signCommand)
        let signsChannel = try settings.list("channel-sign-command", channelOptions.channelSignCommand)
        let startsPrograms =
            try !signs.isEmpty || !signsChannel.isEmpty || bucket.startsPrograms(settings)
            || after.startsPrograms(settings)
        let isFolder = try settings.optional("feed", feed).map { !$0.contains("://") } ?? true
        let isDryRun = try settings.isOn("dry-run", dryRun)
        // A dry run packs into a temporary folder. A signing command reads its message from one.
        let written =
            try (isFolder ? settings.folders("feed", feed) : []) + settings.folders("archive-maps", looking.archiveMaps)
        let folders =
            (isDryRun ? [] : written)
            + (isDryRun || !isFolder || startsPrograms ? [TemporaryDirectory.parentPath] : [])
        let made = try isDryRun ? [] : channelOptions.stateFolders(settings)
        return (Confinement(folders: folders, made: made, files: ["/dev/null", "/dev/tty"]), startsPrograms)
    }

    func run() async throws {
        let settings = try common.settings()
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let next = try after.plan(settings)
        let options = try releaseOptions(settings, isDryRun)
        let progress = Progress()
        defer { progress.end() }
        let feed = try Wiring.location(feed, bucket, settings, progress: progress)
        let signers = try Signers.read(
            Signers.Flags(key: "key", command: "sign-command", publicKey: "sign-public-key"), keys: key,
            commands: signCommand,
            publicKeys: signPublicKey, passphrase, settings)
        if signers.isEmpty {
            throw MissingFlag(flags: ["key", "sign-command"])
        }
        let plan = try channelOptions.plan(
            release: signers, isDryRun: isDryRun, passphrase, settings)
        let builder = ReleaseBuilder(options, feed: feed, report: progress.report)
        let inspection = try builder.inspect(directory)
        let release = try builder.publish(inspection, signers: signers, to: plan)
        progress.end()
        // The hint follows the result, or precedes the failure of a later step.
        defer {
            if release.isFeedNew { Output.say(feed.isNewNote) }
            Self.warn(inspection, release)
        }
        try await next.finish(
            Publication(of: release, in: feed, isDryRun: isDryRun), try settings.isOn("json", common.json),
            object(release, inspection, feed.address), lines(release, feed.address))
    }

    private static func warn(_ inspection: FolderInspection, _ release: ReleaseReport) {
        for line in InspectionOutput.excluded(inspection) { Output.say(line) }
        for line in InspectionOutput.lines(inspection) { Output.warn(line) }
        for line in InspectionOutput.lines([release.sameContent].compactMap(\.self)) { Output.warn(line) }
        if !release.raisedLimits.isEmpty {
            Output.warn(
                "this release is larger than devices allow by default: give every device "
                    + "\(release.raisedLimits.joined(separator: " and ")), too")
        }
        for warning in release.warnings { Output.warn(warning) }
        release.channel.map(ChannelOutput.warn)
    }

    private func releaseOptions(_ settings: Settings, _ isDryRun: Bool) throws -> ReleaseOptions {
        let minimum = try settings.optional("min-shell", minShell) ?? ShellOptions.noVersion
        let lowest = try settings.parsed("min-shell", minimum) { try SemanticVersion(parsingArgument: $0) }
        let maximum = try settings.optional("max-shell", maxShell)
        let shells = try settings.parsed("max-shell", maximum ?? "") { _ in
            try ShellRange(minimum: lowest, maximum: try maximum.map { try SemanticVersion(parsingArgument: $0) })
        }
        var options = ReleaseOptions(
            version: try version.semantic(settings),
            shells: shells, createdAt: try PublishTime.created())
        options.appId = try settings.optional("app-id", appId)
        if let appId = options.appId, !AppId.isReverseDNS(appId) { throw ValidationError(AppId.usage) }
        options.notes = try settings.optional("notes", notes).map(Self.text)
        options.requiredEndpoints = try settings.list("requires-endpoint", requiresEndpoint)
        if !options.requiredEndpoints.isEmpty, let refusal = RequiredEndpoints.refusal(options.requiredEndpoints) {
            throw ValidationError("--requires-endpoint: \(refusal).")
        }
        if let name = try settings.optional("format", format) {
            guard let format = ArchiveFormat(rawValue: name) else {
                throw ValidationError("--format takes tar.zst, tar.gz, zip or tar.")
            }
            options.format = format
        }
        let levels = options.format == .tarZstd ? 1...19 : 1...9
        options.level = try settings.optional("level", level).map { text in
            guard let number = Int(text), levels.contains(number) else {
                throw ValidationError(
                    "--level takes \(levels.lowerBound) to \(levels.upperBound) for \(options.format.rawValue).")
            }
            return number
        }
        if let text = try settings.optional("window-log", windowLog) {
            guard let number = Int(text), ZstdCompressor.windowLogs.contains(number) else {
                throw ValidationError("--window-log takes 10 to 27.")
            }
            options.windowLog = number
        }
        options.wait = try waiting.wait(settings)
        options.excluded = try excluding.patterns(settings)
        options.drops = try excluding.drops(settings)
        options.budget = try looking.budget(settings)
        options.mapsFolder = try settings.optional("archive-maps", looking.archiveMaps)
        options.allowed = try ExcludeOptions.patterns("allow", allow, settings)
        options.secretFiles =
            try settings.list("key", key) + channelOptions.keyFiles(settings)
            + [passphrase.file(settings), BucketReading.sharedFile, BucketReading.configurationFile].compactMap(\.self)
        options.limits = try limits.limits(settings)
        options.trust = try channelOptions.anchor(settings)
        if noDeltas, !deltas.deltaFrom.isEmpty {
            throw ValidationError(
                "Give either --no-deltas or --delta-from.")
        }
        options.deltas = try settings.isOn("no-deltas", noDeltas) ? nil : try deltas.terms(settings)
        options.isDryRun = isDryRun
        return options
    }

    private static func text(of path: String) throws -> String {
        let file = try File.open(reading: path)
        let most = ReleaseNotes.maximumBytes
        if try file.size() > most {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The release notes \(path) have \(ByteCount(bytes: try file.size())), but the limit is \(ByteCount(bytes: most)). Shorten "
                    + "them, or link to a page.")
        }
        let bytes = try file.readAll(maximumBytes: most)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The release notes \(path) are not UTF-8 text. Save the file as UTF-8.")
        }
        return text
    }

    // MARK: Output

    private func object(_ release: ReleaseReport, _ inspection: FolderInspection, _ feed: String) -> JSONObject {
        let manifest = release.manifest
        var object: JSONObject = [
            "outcome": .string(release.outcome.rawValue),
            "version": .string(manifest.version.description),
            "feed": .string(feed),
            "newest": .bool(release.isNewest),
            "files": .integer(manifest.fileCount ?? 0),
            "installedSize": .integer(manifest.installedSize ?? 0),
            "archiveSize": .integer(manifest.size ?? 0),
            "sha256": .string(manifest.sha256.hex),
            "contentSha256": .string(orNull: manifest.contentSha256?.hex),
            "keyId": .string(orNull: manifest.keyId),
            "largest": .array(
                release.largest.map { .object(["path": .string($0.path.string), "size": .integer($0.size)]) }),
        ]
        object["offered"] = .string(orNull: release.offered?.description)
        object["findings"] = InspectionOutput.objects([release.sameContent].compactMap(\.self) + inspection.findings)
        object["dropped"] = InspectionOutput.objects(inspection.dropped)
        object["warnings"] = .array(release.warnings.map(JSONValue.string))
        object["raisedLimits"] = .array(release.raisedLimits.map(JSONValue.string))
        object["deltas"] = .array(release.deltas.map(DeltaLines.value))
        object["writes"] = release.writes.map(WriteOutput.value)
        object["channel"] = release.channel.map { .object(ChannelOutput.object($0)) }
        return object
    }

    private func lines(_ release: ReleaseReport, _ feed: String) -> [String] {
        let manifest = release.manifest
        let installed = manifest.installedSize ?? 0
        let archive = manifest.size ?? 0
        // An archive of a few small files can be larger than the files.
        let percent = archive < installed ? " (\(archive * 100 / installed) %)" : ""
        let what =
            switch release.outcome {
            case .published: "published \(manifest.version) to \(feed)"
            case .unchanged: "\(manifest.version) was already in \(feed) with this content; nothing changed"
            case .completed:
                "\(manifest.version) was already in \(feed) with this content; the files that offer it were written"
            case .dryRun: "would publish \(manifest.version) to \(feed) (dry run; nothing was written)"
            }
        let size = "\(counted(manifest.fileCount ?? 0, "file")), \(ByteCount(bytes: installed))"
        return [what, "  size       \(size); archive \(ByteCount(bytes: archive))\(percent)"]
            + DeltaLines.summary(release.deltas, archive: archive, isRequested: !deltas.deltaFrom.isEmpty) + [
                target(release)
            ]
            + WriteOutput.lines(release.writes)
    }

    /// Returns the line about the devices that get the release.
    private func target(_ release: ReleaseReport) -> String {
        let version = release.manifest.version
        if let document = release.channel?.document {
            let audience = document.releases.first { $0.version == version }?.audience(at: .now) ?? "no device"
            return
                "  channel    \(document.channel), for \(audience); sequence \(document.sequence) \(document.expires <= .now ? "expired at" : "until") \(document.expires)"
        }
        let verb = release.outcome == .dryRun ? "would offer" : "offers"
        if release.isNewest { return "  manifest   manifest.json \(verb) \(version) to every device" }
        return "  manifest   manifest.json still offers \(release.offered.map { "\($0)" } ?? "nothing")"
    }
}
