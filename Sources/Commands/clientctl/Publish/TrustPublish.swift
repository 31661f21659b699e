import BundleFormats
import ArgumentParser
import BundleValues
import BundleDisk
import BundlePublish

struct TrustPublish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish the next trust root in a feed.",
        discussion: """
            The command first checks all trust roots of the feed. It also writes the
            newest root to FEED/trust.json, for shells that pin one.

            Example:
              clientctl trust publish trust.json --feed feed
            """)

    @Argument(help: "The trust root.", completion: .file())
    var file: String

    @Option(help: .createdFeed, completion: .directory) var feed: String?

    @Flag(help: "Publish even though the feed's channels expired long ago. Check this machine's clock first.")
    var acceptClock = false

    @OptionGroup(title: "After publishing") var after: AfterOptions
    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let next = try after.plan()
        let feed = try Wiring.location(feed, bucket: bucket)
        let root = try TrustFile.read(file)
        if try feed.isNew { Output.say(feed.isNewNote) }
        let report = try TrustPublisher(feed: feed, isClockAccepted: acceptClock, wait: waiting.feedWait()).publish(
            root)
        for name in report.channelsToSign {
            Output.warn(
                "devices with this root refuse the current file of channel \(name), and devices without it refuse a file without the "
                    + "old key: sign it with both by `clientctl channel renew --channel \(name) --channel-key NEW --channel-key OLD`, and "
                    + "give the old public key with --trust")
        }
        Self.warnings(report).forEach { Output.warn($0) }
        let outcome = report.isNew ? "published" : report.isCompleted ? "completed" : "unchanged"
        try await next.finish(
            Publication(feed: feed, outcome: outcome, documents: report.documents), json: common.json,
            object: [
                "outcome": .string(outcome), "version": .integer(report.version),
                "feed": .string(feed.address.description),
                "channelsToSign": .array(report.channelsToSign.map(JSONValue.string)),
                "refused": .array(
                    report.refused.map {
                        .object([
                            "document": .string($0.document), "version": .string($0.version.description),
                            "code": .string($0.code.rawValue),
                        ])
                    }),
            ],
            lines: [
                report.isNew
                    ? "published trust root \(report.version) to \(feed.address)"
                    : "trust root \(report.version) is already in \(feed.address); "
                        + (report.isCompleted ? "trust.json was missing or older, and was written" : "nothing changed")
            ])
    }

    /// Returns a warning about the current releases that no key of the new trust root has signed, and one for each release of another
    /// application.
    private static func warnings(_ report: TrustPublisher.PublishedRoot) -> [String] {
        let unsigned = report.refused.filter { $0.code != .appMismatch }
        let others = report.refused.filter { $0.code == .appMismatch }.map { release in
            let named = release.appId.map { "is for \(UntrustedName.display($0))" } ?? "names no application"
            let advice = release.expected.map { " Publish again with --app-id \($0)." } ?? ""
            return
                "\(place(release)) offers \(release.version), which \(named): devices with this trust root refuse it.\(advice)"
        }
        if unsigned.isEmpty { return others }
        let isOne = Set(unsigned.map(\.version)).count == 1
        return [
            "no release key of this trust root has signed \(list(unsigned.map(\.version.description))), which "
                + "\(list(unsigned.map(place))) \(Set(unsigned.map(place)).count == 1 ? "offers" : "offer"), so devices refuse "
                + "\(isOne ? "it" : "them"). Publish a new release for every device now, signed with "
                + "\(report.releaseKeys.joined(separator: " or "))."
        ] + others
    }

    private static func place(_ release: TrustPublisher.RefusedRelease) -> String {
        release.document.hasSuffix(".json") ? release.document : "channel \(release.document)"
    }

    /// Returns the distinct `words` in their order, with "and" before the last.
    private static func list(_ words: [String]) -> String {
        let distinct = words.enumerated().filter { !words[..<$0.offset].contains($0.element) }.map(\.element)
        return distinct.count > 1
            ? distinct.dropLast().joined(separator: ", ") + " and \(distinct[distinct.count - 1])" : distinct.joined()
    }
}

struct TrustUpdateFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "update",
        abstract: "Update FILE to the newest trust root of a feed.",
        discussion: """
            Run this when you build a shell, to pin the newest root. The command verifies
            every version in between.

            Examples:
              clientctl trust update trust.json --feed https://updates.example.com/
              clientctl trust update trust.json --feed feed
            """)

    @Argument(help: "The trust root to start from.", completion: .file())
    var file: String

    @Option(help: ArgumentHelp("(required) The feed: a URL or a folder.", valueName: "url|dir"), completion: .directory)
    var feed: String?

    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let feed = try FlagValue.required(feed, of: "feed")
        let url = try Wiring.url(feed.hasSuffix("/") ? feed : feed + "/")
        if url.isFile { _ = try Directory.open(feed) }
        guard case .root(let known) = try TrustAnchor.read(at: file) else {
            throw UpdateFailure(
                .configInvalid, subject: file,
                "\(file) is a public key, not a trust root. Give the trust root to update.")
        }
        let newest = try await TrustChain.newest(
            after: known, inFeed: url, fetcher: try Wiring.fetcher(network, for: url), now: .now)
        let isNewer = newest.root.version > known.root.version
        if isNewer { try TrustFile.of(try TrustRootFormat.parse(newest.document)).write(to: file, replacing: true) }
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string(isNewer ? "updated" : "unchanged"), "version": .integer(newest.root.version),
                "previous": .integer(known.root.version), "file": .string(file),
            ],
            lines: [
                isNewer
                    ? "\(file): trust root \(known.root.version) → \(newest.root.version)"
                    : "\(file): trust root \(known.root.version) is the newest of the feed"
            ])
    }
}
