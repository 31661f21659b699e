import ArgumentParser
import BundleArchive
import BundleCore
import BundleDisk
import BundleFormats
import BundlePublish
import BundleSigning
import BundleValues

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
    private var minShell: String?

    @Option(
        help: ArgumentHelp("Highest shell version that can show the release (default: no limit).", valueName: "version")
    )
    private var maxShell: String?

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
    private var requiresEndpoint: [String] = []

    @Option(
        help: ArgumentHelp(
            "Publish a program for `clientctl run` instead of a web client: the path of the executable file in the folder. Repeat it for up to 8 further files that it starts.",
            valueName: "path"))
    var program: [String] = []

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
            object: object(release, inspection: inspection, feed: feed.address.description),
            lines: lines(release, inspection: inspection, feed: feed.address.description))
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

extension Publish {
    static func warn(_ inspection: FolderInspection, release: ReleaseReport) {
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

    func object(_ release: ReleaseReport, inspection: FolderInspection, feed: String) -> JSONObject {
        let manifest = release.manifest
        var object: JSONObject = [
            "outcome": .string(release.outcome.rawValue), "version": .string(manifest.version.description),
            "feed": .string(feed), "newest": .bool(release.isNewest), "files": .integer(manifest.fileCount ?? 0),
            "installedSize": .integer(manifest.installedSize ?? 0), "archiveSize": .integer(manifest.size ?? 0),
            "sha256": .string(manifest.sha256.hex), "contentSha256": .string(orNull: manifest.contentSha256?.hex),
            "keyId": .string(orNull: manifest.keyId),
            "largest": .array(
                release.largest.map { .object(["path": .string($0.path.string), "size": .integer($0.size)]) }),
        ]
        object["origins"] = inspection.origins.json
        object["offered"] = .string(orNull: release.offered?.description)
        object["findings"] = InspectionOutput.objects([release.sameContent].compactMap(\.self) + inspection.findings)
        object["dropped"] = InspectionOutput.objects(inspection.dropped)
        object["warnings"] = .array(release.warnings.map(JSONValue.string))
        object["raisedLimits"] = .array(release.raisedLimits.map(JSONValue.string))
        object["deltas"] = .array(release.deltas.map(DeltaLines.value))
        object["writes"] = release.writes.map(WriteOutput.value)
        object["phone"] = release.phone.map { .object(PhoneOptions.object($0)) }
        object["channel"] = release.channel.map { .object(ChannelOutput.object($0)) }
        return object
    }

    func lines(_ release: ReleaseReport, inspection: FolderInspection, feed: String) -> [String] {
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
        var lines = [what, "  size       \(size); archive \(ByteCount(bytes: archive))\(percent)"]
        lines += DeltaLines.summary(release.deltas, archive: archive, isRequested: !deltas.deltaFrom.isEmpty)
        lines.append(target(release))
        if let phone = release.phone { lines.append(PhoneOptions.line(phone)) }
        lines += inspection.origins.lines.map { "  declares   \($0)" }
        return lines + WriteOutput.lines(release.writes)
    }

    /// Returns the line about the devices that get the release.
    private func target(_ release: ReleaseReport) -> String {
        let version = release.manifest.version
        if let channel = release.channel, let proposal = channel.proposal {
            let keys = counted(proposal.missing, "more channel key")
            return "  channel    \(channel.document.channel), proposal \(proposal.shortID), which waits for \(keys)"
        }
        if let document = release.channel?.document {
            let audience = document.releases.first { $0.version == version }?.audience(at: .now) ?? "no device"
            return
                "  channel    \(document.channel), for \(audience); sequence \(document.sequence), \(document.expires <= .now ? "expired at" : "expires") \(document.expires)"
        }
        let verb = release.outcome == .dryRun ? "would offer" : "offers"
        if release.isNewest { return "  manifest   manifest.json \(verb) \(version) to every device" }
        return "  manifest   manifest.json still offers \(release.offered.map { "\($0)" } ?? "nothing")"
    }
}

extension Publish {
    /// Returns the release that the flags describe.
    private func releaseOptions() throws -> ReleaseOptions {
        var options = ReleaseOptions(
            version: try version.semantic(), shells: try shells(), createdAt: try PublishTime.created())
        if let appId, !AppId.isReverseDNS(appId) { throw ValidationError(AppId.usage) }
        options.appId = appId
        options.notes = try notes.map(Self.text)
        try setProgram(of: &options)
        if !requiresEndpoint.isEmpty, let refusal = RequiredEndpoints.refusal(requiresEndpoint) {
            throw ValidationError("--requires-endpoint: \(refusal).")
        }
        options.requiredEndpoints = requiresEndpoint
        try setFormat(of: &options)
        options.wait = try waiting.feedWait()
        options.excluded = try excluding.patterns()
        options.drops = try excluding.drops()
        options.budget = try looking.releaseBudget()
        options.mapsFolder = looking.archiveMaps
        options.allowed = try ExcludeOptions.patterns(allow, of: "allow")
        let otherSecrets = [
            passphrase.passphraseFile, BucketReading.sharedFile, BucketReading.configurationFile,
        ]
        options.secretFiles =
            signing.key + channelOptions.channelKey + [phones.phoneKey].compactMap(\.self)
            + otherSecrets.compactMap(\.self)
        options.limits = try limits.limits()
        options.trust = try channelOptions.anchor()
        options.devicesTrustNewKey = channelOptions.limits.devicesTrustNewKey
        if CommandLineFlags.contain("no-deltas"), CommandLineFlags.contain("delta-from") {
            throw ValidationError("Give either --no-deltas or --delta-from.")
        }
        options.deltas = noDeltas ? nil : try deltas.terms()
        options.isDryRun = dryRun
        options.isForPhones = phones.isAsked
        return options
    }

    private func setProgram(of options: inout ReleaseOptions) throws {
        options.channel = channelOptions.channel
        if program.isEmpty { return }
        do throws(ReleaseProgram.Refusal) {
            options.program = try ReleaseProgram(program)
        } catch {
            throw ValidationError("--program takes the path of a file in the folder: \(error).")
        }
        if phones.isAsked || !requiresEndpoint.isEmpty {
            throw ValidationError("--phone and --requires-endpoint are for web clients. Leave them out with --program.")
        }
    }

    private func shells() throws -> ShellRange {
        let lowest = try minShell.map { try FlagValue.version($0, of: "min-shell") } ?? .zero
        return try FlagValue.parsed(maxShell ?? "", of: "max-shell") { _ in
            try ShellRange(minimum: lowest, maximum: try maxShell.map { try SemanticVersion(parsingArgument: $0) })
        }
    }

    private func setFormat(of options: inout ReleaseOptions) throws {
        if let format {
            guard let known = ArchiveFormat(rawValue: format) else {
                throw ValidationError("--format takes tar.zst, tar.gz, zip or tar.")
            }
            options.format = known
        }
        if let level {
            let levels = options.format == .tarZstd ? 1...19 : 1...9
            guard let number = Int(level), levels.contains(number) else {
                throw ValidationError(
                    "--level takes \(levels.lowerBound) to \(levels.upperBound) for \(options.format.rawValue).")
            }
            options.level = number
        }
        if let windowLog {
            guard let number = Int(windowLog), ZstdCompressor.windowLogs.contains(number) else {
                throw ValidationError("--window-log takes 10 to 27.")
            }
            options.windowLog = number
        }
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
        let bytes = try EditedText.bytes(of: file.readAll(maximumBytes: most), in: path)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The release notes \(path) are not UTF-8 text. Save the file as UTF-8.")
        }
        return text
    }
}
