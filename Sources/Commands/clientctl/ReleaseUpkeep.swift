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
            From their next check on; a device that is given --check-interval keeps to
            that. The jitter also spreads the checks of devices that hear of a change by
            push: it is none unless stated.

            Examples:
              clientctl release poll --interval 5m --jitter 1m --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release poll --undo --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("The time between two checks, 10s to 7d.", valueName: "duration"))
    var interval: String?

    @Option(help: ArgumentHelp("At most so much later, at random; 0s by default.", valueName: "duration"))
    var jitter: String?

    @Flag(help: "Leave it to the devices.")
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
            throw ValidationError("--interval takes 10s to 7d: devices keep to nothing else.")
        }
        if let jitter, jitter > interval { throw ValidationError("--jitter is at most the interval.") }
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
        abstract: "Set how long a page that is busy keeps devices from showing another client.",
        discussion: """
            A page says busy(true) while somebody pays or scans. Until it says busy(false),
            `serve` shows nothing else by itself, not even an urgent release, but for so
            long at most: 10m unless stated. A recalled client waits for a minute at most.

            Examples:
              clientctl release busy 2m --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release busy --undo --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Argument(help: "The longest time, 0s to 1h; 0s leaves no page alone.")
    var limit: String?

    @Flag(help: "Leave it at 10m.")
    var undo = false

    @OptionGroup var edit: ChannelEditOptions

    func change(_ settings: Settings) throws -> ChannelChange {
        if try settings.isOn("undo", undo) {
            if limit != nil { throw ValidationError("--undo takes no time.") }
            return .busyLimit(nil)
        }
        guard let limit else { throw ValidationError("Missing time: say how long at most, such as 10m, or --undo.") }
        guard let parts = try? DurationText(parsing: limit).duration.components, parts.attoseconds == 0,
            (0...Int64(BusyPages.longest)).contains(parts.seconds)
        else {
            throw ValidationError("The time is 0s to 1h, in whole seconds, not \(UntrustedName.display(limit)).")
        }
        return .busyLimit(Int(parts.seconds))
    }
}

struct ReleaseResign: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resign",
        abstract: "Sign a channel document again, with a later expiry.",
        discussion: """
            Devices install nothing by a document that is out of date, so a quiet channel
            is signed anew from time to time, as by cron:

            Examples:
              clientctl release resign --if-expires-within 7d --feed feed \\
                --channel stable --channel-key channel.key.pem
              clientctl release resign --feed feed --channel stable \\
                --channel-key new.key.pem --trust old.pub.pem
            """)

    @Option(help: ArgumentHelp("Do nothing unless it expires so soon, such as 7d.", valueName: "duration"))
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
        abstract: "Restore a channel document that was lost or rolled back, from its copies.",
        discussion: """
            Devices take no document with a lower sequence than they have seen. The
            restored one goes on above every copy below FEED/channels/NAME, so they
            take it. It offers what the newest copy offered, or --copy. What was
            recalled since stays recalled.

            Examples:
              clientctl release restore --feed feed --channel stable \\
                --channel-key channel.key.pem
              clientctl release restore --copy 17 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("Offer what the copy with this sequence offered.", valueName: "n"))
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
            For feeds without a channel. Devices that have not installed the release
            yet do not get it any more. Devices that have it keep it, for a
            manifest.json never leads back: publish a higher version for them. The
            release's files stay.

            Example:
              clientctl release unpublish --version 1.5.1 --feed feed
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("The release to offer; by default the newest below it.", valueName: "version"))
    var to: String?

    @Option(help: ArgumentHelp("The feed: a folder or s3://bucket/prefix.", valueName: "place"), completion: .directory)
    var feed: String?

    @Flag(help: "Tell what would change, and write nothing.")
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
                "manifest.json \(verb) \(done.offered) in place of \(version)",
                "devices that have \(version) keep it: publish a version above it for them",
            ] + WriteOutput.lines(done.writes))
    }
}
