import ArgumentParser
import BundlePublish
import BundleValues

/// `clientctl feed`.
struct FeedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feed",
        abstract: "Maintain a feed as a whole.",
        subcommands: [FeedCollect.self])
}

/// `clientctl feed gc`.
struct FeedCollect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "List releases and deltas that nothing needs any more. --remove removes them.",
        discussion: """
            What stays: what manifest.json and the channels offer or recall, what the
            newest copies of the channels' documents offer (release restore needs
            them), the newest releases, what deltas to these build on, and what came
            less than --min-age ago, since somebody may be publishing it. Copies of
            documents and files that are not clientctl's always stay.

            Examples:
              clientctl feed gc --feed feed
              clientctl feed gc --feed s3://bucket/prefix --keep 10 --remove
            """)

    @Option(help: ArgumentHelp("The feed: a folder or s3://bucket/prefix.", valueName: "place"), completion: .directory)
    var feed: String?

    @Option(
        help: ArgumentHelp(
            "Releases to keep, the newest, and copies of each channel's document whose releases to keep; 5 by default.",
            valueName: "n"))
    var keep: String?

    @Option(
        help: ArgumentHelp("What came to the feed less long ago stays; 1d by default.", valueName: "duration"))
    var minAge: String?

    @Flag(help: "Remove what the plan says.")
    var remove = false

    @OptionGroup var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        var terms = FeedSweep.Terms()
        if let keep = try settings.optional("keep", keep) {
            terms.keep = try settings.integer("keep", keep, atLeast: 1)
        }
        if let age = try settings.optional("min-age", minAge) {
            terms.leastAge = try settings.parsed("min-age", age) { try DurationText(parsing: $0).duration }
        }
        terms.isDryRun = try !settings.isOn("remove", remove)
        let plan = try FeedSweep(Wiring.place(feed, bucket, settings), terms, clock: .now)
            .run(waiting.wait(settings))
        Output.give(
            json: try settings.isOn("json", common.json), afterChange: !terms.isDryRun,
            Self.object(plan, terms), Self.lines(plan, terms))
    }

    private static func object(_ plan: SweepPlan, _ terms: FeedSweep.Terms) -> JSONObject {
        [
            "outcome": .string(terms.isDryRun ? "dryRun" : plan.removed.isEmpty ? "unchanged" : "removed"),
            "bytes": .integer(bytes(plan)),
            "removed": .array(
                plan.removed.map {
                    .object([
                        "path": .string($0.path), "bytes": .integer($0.bytes), "reason": .string($0.reason.rawValue),
                    ])
                }),
            "kept": .array(
                plan.kept.map {
                    .object([
                        "version": .string($0.version.description), "bytes": .integer($0.bytes),
                        "reasons": .array(Set($0.reasons.map(\.code)).sorted().map(JSONValue.string)),
                    ])
                }),
        ]
    }

    private static func bytes(_ plan: SweepPlan) -> Int { plan.removed.reduce(0) { $0 + $1.bytes } }

    private static func lines(_ plan: SweepPlan, _ terms: FeedSweep.Terms) -> [String] {
        let verb = terms.isDryRun ? "would remove" : "removed"
        let sum = plan.removed.isEmpty ? "nothing to remove" : "\(verb) \(ByteCount(bytes: bytes(plan)))"
        return plan.removed.map { removed in
            "\(verb)  \(ByteCount(bytes: removed.bytes))  \(UntrustedName.display(removed.path)), \(words(removed.reason))"
        }
            + plan.kept.map { kept in
                "keep  \(ByteCount(bytes: kept.bytes))  \(kept.version): \(kept.reasons.first.map(\.words) ?? "")"
            }
            + [sum] + (terms.isDryRun && !plan.removed.isEmpty ? ["nothing was removed: --remove does it"] : [])
    }

    private static func words(_ reason: RemovedReason) -> String {
        switch reason {
        case .unnamed: "which nothing names"
        case .incomplete: "which is no complete release"
        case .unlisted: "which its release's list does not have"
        }
    }
}
