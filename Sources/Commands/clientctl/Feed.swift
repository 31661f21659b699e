import ArgumentParser
import BundlePublish
import BundleValues

/// `clientctl feed`.
struct Feed: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Maintain a feed.", subcommands: [FeedCollect.self])
}

/// `clientctl feed gc`.
struct FeedCollect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "Remove releases that no device needs any more.",
        discussion: """
            A release stays if manifest.json or a channel offers it, if a channel
            recalls it, if one of a channel's last copies offers it (for `release
            restore`), if a delta builds on it, or if it is one of the newest. Channel
            documents and their copies always stay. In a folder, deltas that no list
            names go, too. In a bucket, edit no channel meanwhile.

            Examples:
              clientctl feed gc --feed feed --dry-run
              clientctl feed gc --feed s3://bucket/kiosk --keep 5
            """)

    @Option(help: ArgumentHelp("The feed: a folder or s3://bucket/prefix.", valueName: "place"), completion: .directory)
    var feed: String?

    @Option(help: ArgumentHelp("Newest releases to keep in any case; 3 by default.", valueName: "n"))
    var keep: String?

    @Option(
        help: ArgumentHelp("Copies of each channel whose releases stay; 20 by default.", valueName: "n"))
    var history: String?

    @Flag(help: "Show the plan only.")
    var dryRun = false

    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let json = try settings.isOn("json", common.json)
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let newest = try settings.optional("keep", keep).map { try settings.integer("keep", $0, atLeast: 1) } ?? 3
        let copies =
            try settings.optional("history", history).map { try settings.integer("history", $0, atLeast: 1) } ?? 20
        let sweep = try FeedSweep.run(
            in: try Wiring.place(feed, bucket, settings), newest: newest, history: copies,
            wait: try waiting.wait(settings), isDryRun: isDryRun
        ) { plan in
            // Before anything goes: whoever is asked afterwards finds it in the log.
            if !json { Output.give(json: false, [:], Self.lines(plan)) }
        }
        let members: JSONObject = [
            "outcome": .string(isDryRun ? "dryRun" : "collected"),
            "retained": .array(
                sweep.kept.map {
                    .object(["version": .string($0.version.description), "reason": .string("\($0.reason)")])
                }),
            "removed": .array(sweep.removed.map { .string($0.description) }),
            "strays": .array(sweep.strays.map { .string($0) }), "bytes": .integer(sweep.bytes),
        ]
        let size = ByteCount(bytes: sweep.bytes)
        Output.give(
            json: json, afterChange: !isDryRun, members, ["\(size) \(isDryRun ? "would go" : "removed")"])
    }

    private static func lines(_ plan: FeedSweep) -> [String] {
        plan.kept.map { "keep    \($0.version): \($0.reason)" } + plan.removed.map { "remove  \($0)" }
            + plan.strays.map { "remove  \($0), which no list names" }
    }
}
