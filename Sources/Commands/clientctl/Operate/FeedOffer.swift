import ArgumentParser
import BundlePublish
import BundleValues

struct FeedOffer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "offer",
        abstract: "Make manifest.json offer another release of the feed.",
        discussion: """
            Use it for feeds without a channel, such as to stop offering a bad release.
            Devices that have a higher version keep it, because they never install a lower
            version from manifest.json: publish a higher version for them. No file of a
            release is removed.

            `release recall` recalls a release from devices; `release withdraw` removes it
            from a channel.

            Example:
              clientctl feed offer 1.5.0 --feed feed
            """)

    @Argument(help: "(required) Version that manifest.json offers, such as 1.5.0.")
    var version: String

    @Option(help: .feed, completion: .directory) var feed: String?

    @Flag(help: "Show what would change, and write nothing.")
    var dryRun = false

    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let next = try after.plan()
        let version = try FlagValue.version(version, of: "version")
        let feed = try Wiring.location(feed, bucket: bucket)
        let done = try ManifestOffer(version, in: feed, clock: .now, wait: try waiting.feedWait(), isDryRun: dryRun)
        let outcome = dryRun ? Publication.dryRun : done.previous == version ? "unchanged" : "changed"
        var object: JSONObject = [
            "offered": .string(version.description), "previous": .string(orNull: done.previous?.description),
            "outcome": .string(outcome),
        ]
        object["writes"] = done.writes.map(WriteOutput.value)
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: ["manifest.json"], version: version),
            json: common.json, object: object, lines: lines(done, isDryRun: dryRun))
    }

    private func lines(_ done: ManifestOffer, isDryRun: Bool) -> [String] {
        guard let previous = done.previous else {
            return ["manifest.json \(isDryRun ? "would offer" : "offers") \(done.version)"]
                + WriteOutput.lines(done.writes)
        }
        if previous == done.version { return ["manifest.json already offers \(previous); nothing was written"] }
        return ["manifest.json \(isDryRun ? "would offer" : "offers") \(done.version) instead of \(previous)"]
            + (previous > done.version
                ? ["devices that have \(previous) keep it: publish a higher version for them"] : [])
            + WriteOutput.lines(done.writes)
    }
}
