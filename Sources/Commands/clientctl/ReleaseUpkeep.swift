import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundlePublish

struct ReleasePoll: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "poll",
        abstract: "Set how often running devices check for updates.",
        discussion: """
            Takes effect at the next check. The --check-interval of a device wins. The
            jitter also spreads the checks that a push notification causes.

            Examples:
              clientctl release poll --interval 5m --jitter 1m --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release poll --undo --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("(required, or --undo) The time between two checks, 10s to 7d.", valueName: "duration"))
    var interval: String?

    @Option(help: ArgumentHelp("Maximum random delay added to each check. (default: 0s)", valueName: "duration"))
    var jitter: String?

    @Flag(help: "Remove the setting; devices use their own.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        let interval = try seconds("interval", interval, settings)
        let jitter = try seconds("jitter", jitter, settings)
        if try settings.isOn("undo", undo) {
            if interval != nil || jitter != nil {
                throw ValidationError("--undo takes neither --interval nor --jitter.")
            }
            return .poll(nil)
        }
        guard let interval else { throw MissingFlag(flags: ["interval"]) }
        guard PollPace.allowed.contains(.seconds(interval)) else {
            throw ValidationError("--interval takes 10s to 7d. Devices ignore any other interval.")
        }
        if let jitter, jitter > interval { throw ValidationError("--jitter takes at most the interval.") }
        return .poll(ChannelDocument.Poll(interval: interval, jitter: jitter ?? 0))
    }

    private func seconds(_ name: String, _ given: String?, _ settings: Settings) throws -> Int? {
        guard let text = try settings.optional(name, given) else { return nil }
        let parts = try settings.parsed(name, text) { try DurationText(parsing: $0).duration }.components
        if parts.attoseconds != 0 { throw ValidationError("--\(name) takes whole seconds, not \(text).") }
        return Int(clamping: parts.seconds)
    }
}

struct ReleaseBusy: ChannelEdit {
    static let configuration = CommandConfiguration(
        commandName: "busy",
        abstract: "Set how long a busy page can keep a device from showing another client.",
        discussion: """
            A page calls busy(true) while a user pays or scans. Until it calls busy(false)
            or this limit ends, `serve` does not switch to another client, not even to an
            urgent release. For a recalled client the limit is one minute. (default: 10m)

            Examples:
              clientctl release busy 2m --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release busy --undo --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Argument(help: "(required, or --undo) The limit, 0s to 1h. With 0s, busy pages delay nothing.")
    var limit: String?

    @Flag(help: "Remove the setting; the limit is 10m again.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        if try settings.isOn("undo", undo) {
            if limit != nil { throw ValidationError("--undo takes no time.") }
            return .busyLimit(nil)
        }
        guard let limit else { throw ValidationError("Missing time: give the limit, such as 10m, or --undo.") }
        guard let parts = try? DurationText(parsing: limit).duration.components, parts.attoseconds == 0,
            (0...Int64(BusyPages.longest)).contains(parts.seconds)
        else {
            throw ValidationError("The limit is 0s to 1h, in whole seconds, not \(UntrustedName.display(limit)).")
        }
        return .busyLimit(Int(parts.seconds))
    }
}

struct ReleaseResign: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resign",
        abstract: "Sign a channel file again, with a later expiry.",
        discussion: """
            Devices install nothing from an expired channel file. Sign a channel without
            changes again regularly, such as from cron.

            Examples:
              clientctl release resign --if-expires-within 7d --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release resign --feed feed --channel stable \\
                --channel-key new.key.pem --trust old.pub.pem
            """)

    @Option(
        help: ArgumentHelp("Do nothing unless the file expires within this time, such as 7d.", valueName: "duration"))
    var ifExpiresWithin: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let time = try PublishTime.duration("if-expires-within", ifExpiresWithin, settings)
        try await edit.run(settings) { editor, channel in
            if let time { return try editor.resign(channel, ifExpiresWithin: time) }
            return try editor.apply(.resign, to: channel)
        }
    }
}

struct ReleaseRestore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a channel file that was lost or rolled back, from its copies.",
        discussion: """
            Devices reject a channel file with a lower sequence than one they have seen.
            The restored file gets a sequence above every copy in FEED/channels/NAME, so
            devices accept it. It offers the releases of the newest copy, or of --copy.
            Releases that were recalled since then stay recalled.

            Examples:
              clientctl release restore --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release restore --copy 17 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(
        help: ArgumentHelp("Offer the releases of the copy with this sequence. (default: the newest)", valueName: "n"))
    var copy: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let sequence = try settings.optional("copy", copy).map { try settings.integer("copy", $0, atLeast: 1) }
        try await edit.run(settings) { try $0.restore($1, to: sequence) }
    }
}

struct ReleaseUnpublish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpublish",
        abstract: "Make manifest.json offer an earlier release again.",
        discussion: """
            Use it for feeds without a channel. Devices that have not installed the release
            no longer get it. Devices that have it keep it, because they never install a
            lower version from manifest.json: publish a higher version for them. The files
            of the release stay.

            Example:
              clientctl release unpublish --version 1.5.1 --feed feed
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("The release to offer. (default: the newest below --version)", valueName: "version"))
    var to: String?

    @Option(
        help: ArgumentHelp("(required) The feed: a folder or s3://bucket/prefix.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Flag(help: "Show what would change, and write nothing.")
    var dryRun = false

    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let next = try after.plan(settings)
        let version = try version.semantic(settings)
        let target = try settings.optional("to", to).map { text in
            try settings.parsed("to", text) { try SemanticVersion(parsingArgument: $0) }
        }
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let feed = try Wiring.place(feed, bucket, settings)
        let done = try ReleaseWithdrawal(
            version, to: target, in: feed, clock: .now, wait: try waiting.wait(settings), isDryRun: isDryRun)
        let verb = isDryRun ? "would offer" : "offers"
        let outcome = isDryRun ? Publication.dryRun : "changed"
        var object: JSONObject = [
            "version": .string(version.description), "offered": .string(done.offered.description),
            "outcome": .string(outcome),
        ]
        object["writes"] = done.writes.map(WriteOutput.value)
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: ["manifest.json"], version: done.offered),
            try settings.isOn("json", common.json),
            object,
            [
                "manifest.json \(verb) \(done.offered) instead of \(version)",
                "devices that have \(version) keep it: publish a higher version for them",
            ] + WriteOutput.lines(done.writes))
    }
}
