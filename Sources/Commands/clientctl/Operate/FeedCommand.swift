import BundleFormats
import ArgumentParser
import BundlePublish
import BundleValues

struct FeedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feed",
        abstract: "Serve, check, copy, export and prune a feed.",
        subcommands: [
            FeedServe.self, FeedCheckCommand.self, FeedCopyCommand.self, FeedExportCommand.self, FeedOffer.self,
            FeedPageModule.self, FeedPrune.self,
        ])
}

struct FeedPrune: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Remove releases and deltas that are no longer needed.",
        discussion: """
            The command keeps releases that manifest.json or a channel offers or recalls,
            releases that recent copies of the channel files offer (for `channel restore`),
            the newest releases, the base versions of deltas to them, and everything newer
            than --min-age, because a publisher may still be writing it. It removes
            proposals that have waited for 7 days, and keeps the releases of the others. It
            never removes copies of channel files or files that clientctl did not write.

            Examples:
              clientctl feed prune --feed feed --dry-run
              clientctl feed prune --feed s3://bucket/prefix --keep 10
            """)

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(
        help: ArgumentHelp(
            "Number of newest releases to keep, and of recent copies of each channel file whose releases to keep (default: 5).",
            valueName: "n"))
    var keep: String?

    @Option(
        help: ArgumentHelp("Keep files that are newer than this (default: 1d).", valueName: "duration"))
    var minAge: String?

    @Flag(help: "List the files that would be removed, and remove nothing.")
    var dryRun = false

    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        var terms = FeedSweep.Terms()
        if let keep {
            terms.keep = try FlagValue.integer(keep, of: "keep", atLeast: 1)
        }
        if let age = minAge {
            terms.leastAge = try FlagValue.duration(age, of: "min-age")
        }
        terms.isDryRun = dryRun
        let plan = try FeedSweep(Wiring.location(feed, bucket: bucket), terms: terms, clock: .now).run(
            waiting.feedWait())
        Output.give(
            json: common.json, afterChange: !terms.isDryRun, Self.object(plan, terms: terms),
            lines: Self.lines(plan, terms: terms))
    }

    private static func object(_ plan: SweepPlan, terms: FeedSweep.Terms) -> JSONObject {
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

    private static func lines(_ plan: SweepPlan, terms: FeedSweep.Terms) -> [String] {
        let verb = terms.isDryRun ? "would remove" : "removed"
        let sum = plan.removed.isEmpty ? "nothing to remove" : "\(verb) \(ByteCount(bytes: bytes(plan)))"
        return plan.removed.map { removed in
            "\(verb)  \(ByteCount(bytes: removed.bytes))  \(UntrustedName.display(removed.path)), \(words(removed.reason))"
        }
            + plan.kept.map { kept in
                "keep  \(ByteCount(bytes: kept.bytes))  \(kept.version): \(kept.reasons.first.map(\.words) ?? "")"
            }
            + [sum]
    }

    private static func words(_ reason: RemovedReason) -> String {
        switch reason {
        case .unnamed: "which is no longer needed"
        case .incomplete: "which is not a complete release"
        case .unlisted: "which the delta list of its release does not name"
        case .waited: "which has waited for another person for more than 7 days"
        }
    }
}

struct FeedCopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Copy a feed to another location, such as from a folder to a bucket.",
        discussion: """
            The command writes archives first, and manifest.json and channel files last,
            so devices can use the target during the copy. Run it again after an
            interruption: it skips files that the target has. It never replaces a release
            and never lowers the sequence of a channel.

            Examples:
              clientctl feed copy feed s3://bucket/prefix
              clientctl feed copy s3://bucket/prefix /media/usb/feed
            """)

    @Argument(help: "The feed: \(LocationAddress.forms).", completion: .directory)
    var source: String

    @Argument(help: "The target: \(LocationAddress.forms). A missing folder is created.")
    var target: String

    @Flag(help: "List the files that would be written, and write nothing.")
    var dryRun = false

    @OptionGroup(title: "Bucket") var bucket: BucketOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let progress = Progress()
        defer { progress.end() }
        let transfer = FeedTransfer(
            from: try Wiring.location(at: source, bucket.reading),
            to: try Wiring.location(at: target, bucket.reading, terms: bucket.terms(), progress: progress),
            isDryRun: dryRun)
        let report = try transfer.run(waiting.feedWait())
        progress.end()
        let bytes = report.written.reduce(0) { $0 + $1.size }
        let verb = dryRun ? "would write" : "wrote"
        Output.give(
            json: common.json, afterChange: !dryRun,
            [
                "outcome": .string(dryRun ? "dryRun" : report.written.isEmpty ? "unchanged" : "copied"),
                "bytes": .integer(bytes), "present": .integer(report.present),
                "written": .array(report.written.map { .string($0.name) }),
                "leftOut": .array(report.foreign.map(JSONValue.string)),
            ],
            lines: report.written.map { "\(verb)  \(ByteCount(bytes: $0.size))  \(UntrustedName.display($0.name))" }
                + report.foreign.map { "skipped \(UntrustedName.display($0)): not a file of a feed" }
                + [
                    "\(verb) \(counted(report.written.count, "file")), \(ByteCount(bytes: bytes)); the target already had "
                        + "\(report.present)"
                ])
    }
}

struct FeedCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the public URL of a feed as devices do.",
        discussion: """
            The command checks trust roots, signatures, holds, sizes, caching and range
            requests. It downloads no archives. With --origin, it also checks that the URL
            serves the published files. If a problem keeps devices from a release, the
            exit status is that of the failure. A problem that only slows devices down
            does not change the exit status.

            Examples:
              clientctl feed check https://updates.example.com/ --trust trust.json
              clientctl feed check https://updates.example.com/ \\
                --origin s3://bucket/prefix
            """)

    @Argument(help: "The feed's URL (https, http, file).")
    var url: String

    @Option(help: ArgumentHelp("The feed's own location: \(LocationAddress.forms).", valueName: "place"))
    var origin: String?

    @Option(
        help: ArgumentHelp(
            "Channel to check. Repeatable (default: all channels of --origin, or stable without it).", valueName: "name"
        ))
    var channel: [String] = []

    @Option(
        help: ArgumentHelp("Key, folder of keys or trust root to check signatures with.", valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let trust = try trust.map(TrustAnchor.read)
        for channel in channel { try ChannelView.requireName(channel) }
        let base = try Wiring.url(url.hasSuffix("/") ? url : url + "/")
        let origin = try origin.map { try Wiring.location(at: $0, reading) }
        var check = try FeedCheck(
            base, with: try Wiring.fetcher(network, for: base), trust: trust, origin: origin, clock: .now)
        let report = try await check.run(channels: channel)
        let members = Self.object(report, of: base, isVerified: trust != nil)
        let worst = report.findings.first { $0.failure != nil }
        if !common.json || worst == nil {
            Output.give(json: common.json, members, lines: Self.lines(report, isVerified: trust != nil))
        }
        guard let worst, let code = worst.failure else { return }
        let count = report.findings.count { $0.failure != nil }
        throw FailureWithOutput(
            failure: UpdateFailure(
                code, subject: worst.subject,
                """
                \(base.display) has \(counted(count, "problem")) for devices. The first: \(worst.sentence)
                """
            ),
            members: members)
    }

    private static func object(_ report: FeedCheck.CheckReport, of base: FetchURL, isVerified: Bool) -> JSONObject {
        let isBroken = report.findings.contains { $0.failure != nil }
        return [
            "outcome": .string(isBroken ? "broken" : report.findings.isEmpty ? "good" : "warning"),
            "url": .string(base.display), "verified": .bool(isVerified),
            "offered": report.offered.map { .string($0.description) } ?? .null,
            "channels": .array(
                report.channels.sorted { $0.key < $1.key }.map {
                    .object(["channel": .string($0.key), "sequence": .integer($0.value)])
                }),
            "files": .integer(report.archives + report.deltas), "bytes": .integer(report.bytes),
            "findings": .array(
                report.findings.map {
                    .object([
                        "code": .string($0.code.rawValue), "broken": .bool($0.failure != nil),
                        "subject": .string($0.subject), "message": .string($0.message),
                    ])
                }),
        ]
    }

    private static func line(_ finding: FeedFinding) -> String {
        "\(finding.failure != nil ? "broken " : "warning")  \(finding.sentence)"
    }

    private static func lines(_ report: FeedCheck.CheckReport, isVerified: Bool) -> [String] {
        var lines = report.findings.map(line)
        for (name, sequence) in report.channels.sorted(by: { $0.key < $1.key }) {
            lines.append("channel \(name) has sequence \(sequence)")
        }
        if let offered = report.offered { lines.append("manifest.json offers \(offered)") }
        let archives = counted(report.archives, "archive")
        let deltas = counted(report.deltas, "delta")
        lines.append("Checked \(archives) and \(deltas) (\(ByteCount(bytes: report.bytes))).")
        if report.findings.isEmpty { lines.append("No problems found.") }
        if !isVerified { lines.append(ChannelList.unverified) }
        return lines
    }
}
