import BundleFormats
import ArgumentParser
import BundleArchive
import BundleValues
import BundleCore
import BundleDisk
import BundlePublish

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

            --phone also writes a bundle for the updater plugins of Capacitor apps, which
            feed serve --phones offers by the same channels.
            """)

    @Argument(help: "The built web folder, which contains index.html.", completion: .directory)
    var directory: String

    @OptionGroup var version: VersionOption

    @Option(help: .createdFeed, completion: .directory) var feed: String?

    @OptionGroup(title: "Signing") var signing: ReleaseSigningOptions
    @OptionGroup(title: "Signing") var passphrase: PassphraseOptions
    @OptionGroup(title: "Channel") var channelOptions: PublishChannelOptions

    @Option(
        help: ArgumentHelp("Lowest shell version that can show the release (default: 0.0.0).", valueName: "version"))
    var minShell: String?

    @Option(
        help: ArgumentHelp("Highest shell version that can show the release (default: no limit).", valueName: "version")
    )
    var maxShell: String?

    @Option(help: .appId) var appId: String?

    @OptionGroup(title: "Content") var excluding: ExcludeOptions
    @OptionGroup(title: "Content") var looking: InspectionOptions

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

    @OptionGroup(title: "Deltas") var deltas: DeltaOptions

    @Flag(help: "Skip deltas.")
    var noDeltas = false

    @Flag(help: "Show what would be written, and write nothing.")
    var dryRun = false

    @OptionGroup(title: "Phones") var phones: PhoneOptions
    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func needs() -> (confinement: Confinement, startsPrograms: Bool) {
        let isFolder = feed.map { !$0.contains("://") } ?? true
        let startsPrograms =
            !signing.signCommand.isEmpty || !channelOptions.channelSignCommand.isEmpty
            || bucket.credentialCommand != nil || after.afterPublish != nil || !isFolder && BucketReading.startsProgram
        // A dry run packs into a temporary folder. A signing command reads its message from one.
        let written = (isFolder ? FlagValue.folders(feed) : []) + FlagValue.folders(looking.archiveMaps)
        let folders =
            (dryRun ? [] : written) + (dryRun || !isFolder || startsPrograms ? [TemporaryDirectory.parentPath] : [])
        let made = dryRun ? [] : channelOptions.stateFolders
        return (Confinement(folders: folders, made: made, files: ["/dev/null", "/dev/tty"]), startsPrograms)
    }

    func run() async throws {
        try channelOptions.requireChannel()
        let next = try after.plan()
        let options = try releaseOptions()
        let progress = Progress()
        defer { progress.end() }
        let feed = try Wiring.location(feed, bucket: bucket, progress: progress)
        let signers = try signing.signers(passphrase)
        let plan = try channelOptions.plan(release: signers, isDryRun: dryRun, passphrase)
        let builder = ReleaseBuilder(options, feed: feed, report: progress.observer)
        let inspection = try explaining { try builder.inspect(directory) }
        let sealer = try phones.sealer(passphrase)
        let release = try explaining {
            try builder.publish(inspection, signers: signers, sealer: sealer, to: plan)
        }
        progress.end()
        // The hint follows the result, or precedes the failure of a later step.
        defer {
            if release.isFeedNew { Output.say(feed.isNewNote) }
            Self.warn(inspection, release: release)
        }
        try await next.finish(
            Publication(of: release, in: feed, isDryRun: dryRun), json: common.json,
            object: object(release, inspection: inspection, feed: feed.address),
            lines: lines(release, inspection: inspection, feed: feed.address))
    }

    /// Names what to change in the folder if devices would refuse its archive.
    private func explaining<Value>(_ work: () throws -> Value) throws -> Value {
        do {
            return try work()
        } catch let rejection as ArchiveRejection {
            let part = rejection.entry.isEmpty ? directory : "\(rejection.entry) in \(directory)"
            throw UpdateFailure(
                .archiveRejected, subject: rejection.failure.subject,
                "Not published. \(part) cannot be in a release: \(rejection.reason) (\(rejection.rule)). "
                    + Self.advice(for: rejection.rule))
        }
    }

    private static func advice(for rule: String) -> String {
        switch rule {
        case "type-symlink": "Replace it by a copy of its target, or leave it out with --exclude."
        case "ratio": "No flag raises this limit: publish the file compressed, or leave it out with --exclude."
        default: "Change it, or leave it out with --exclude."
        }
    }
}
