import BundleFormats
import ArgumentParser
import BundlePublish
import BundleValues

struct ChannelPrune: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Remove releases that no device installs from a channel, and old copies of its file.",
        discussion: """
            It removes recalled releases, and releases that every device can replace with
            a newer one. The --keep highest of these stay: a device that cannot start the
            newest release falls back to them. Devices that run a removed release keep it.
            Recalls stay. `feed prune` then removes the files of the releases.

            Examples:
              clientctl channel prune --keep 5 --feed feed --channel stable \\
                --channel-key channel.key.pem --dry-run
              clientctl channel prune --keep 5 --copies 20 --feed feed --channel stable \\
                --channel-key channel.key.pem
            """)

    @Option(help: ArgumentHelp("(required) Number of releases to keep that no device installs.", valueName: "n"))
    var keep: String?

    @Option(help: ArgumentHelp("Number of copies of the channel file to keep. (default: all)", valueName: "n"))
    var copies: String?

    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let keep = try FlagValue.integer(FlagValue.required(keep, of: "keep"), of: "keep", atLeast: 0)
        let copies = try FlagValue.integer(copies, of: "copies", atLeast: 1)
        let next = try edit.after.plan()
        let (feed, channel) = try edit.place()
        let terms = try edit.options()
        let upkeep = ChannelUpkeep(feed, isDryRun: terms.isDryRun, wait: terms.wait)
        let done = try upkeep.prune(channel, keep: keep, copies: copies, terms: terms)
        guard let report = done.document else { return }
        ChannelOutput.warn(report)
        var object = ChannelOutput.object(report)
        object["removed"] = .array(done.removed.map(JSONValue.string))
        let count = done.removed.count
        let verb = terms.isDryRun ? "would remove" : "removed"
        try await next.finish(
            Publication(of: report, in: feed, about: nil), json: edit.common.json, object: object,
            lines: ChannelOutput.lines(report)
                + (count == 0 ? [] : ["  \(verb) \(count) \(count == 1 ? "copy" : "copies")"]))
    }
}

struct ChannelDelete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Remove a channel from a feed, such as one with a misspelled name.",
        discussion: """
            It removes the channel file first, then the hold and the numbered copies. The
            releases stay until `feed prune`. Devices that follow the channel keep their
            client and report that the feed does not have the channel.

            Examples:
              clientctl channel delete stabel --feed feed --dry-run
              clientctl channel delete stabel --feed feed --yes
            """)

    @Argument(help: "(required) The channel.")
    var name: String

    @Option(help: .feed, completion: .directory) var feed: String?

    @Flag(help: "(required, or --dry-run) Remove the channel. This cannot be undone.")
    var yes = false

    @Flag(help: "Show what would be removed, and remove nothing.")
    var dryRun = false

    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        try ChannelView.requireName(name)
        let next = try after.plan()
        guard dryRun || yes else {
            throw ValidationError(
                "A removed channel cannot be restored: give --yes, or --dry-run to see what would be removed.")
        }
        let feed = try Wiring.location(feed, bucket: bucket)
        let done = try ChannelUpkeep(feed, isDryRun: dryRun, wait: try waiting.feedWait()).delete(name)
        let outcome = dryRun ? Publication.dryRun : "removed"
        let count = done.removed.count
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: [], version: nil), json: common.json,
            object: [
                "outcome": .string(outcome), "channel": .string(name),
                "removed": .array(done.removed.map(JSONValue.string)),
            ],
            lines: ["channel \(name): \(dryRun ? "would remove" : "removed") \(count) \(count == 1 ? "file" : "files")"]
                + done.removed.prefix(10).map { "  \($0)" } + (count > 10 ? ["  and \(count - 10) more"] : [])
                + ["Devices that follow it get 404 and keep their client. manifest.json stays as it is."])
    }
}
