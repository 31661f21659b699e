import BundleFormats
import ArgumentParser
import BundleFleet
import BundlePublish
import BundleValues

/// The flag of commands whose change can wait for another person.
struct ProposalOptions: ParsableArguments {
    @Flag(
        help:
            "Sign the change and let it wait in the feed for another person, if the trust root requires more channel keys than you have."
    )
    var propose = false
}

struct ReleaseProposals: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "proposals",
        abstract: "List the changes that wait for another person.",
        discussion: """
            A proposal is a channel file with too few signatures, in
            FEED/proposals/NAME. No device with the trust root accepts it. It shows who
            signed it, with the labels of the keys in the trust root of --trust, and why a
            proposal no longer continues its channel. `feed prune` removes proposals after
            7 days.

            Examples:
              clientctl release proposals --feed feed --trust trust.json
              clientctl release proposals --feed s3://bucket/prefix --channel stable
            """)

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(help: ArgumentHelp("Only proposals for this channel.", valueName: "name"), completion: .channels)
    var channel: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup var common: CommonOptions

    func run() throws {
        let trust = try trust.map(TrustAnchor.read)
        let feed = try Wiring.location(at: FlagValue.required(feed, of: "feed"), reading)
        try channel.map(ChannelView.requireName)
        let now = Timestamp.now
        let proposals = try ProposalReading.all(of: channel, in: feed, trust: trust, clock: now)
        let names = try KeyNames(in: feed, trust: trust, clock: now)
        Output.give(
            json: common.json,
            ["proposals": .array(proposals.map { .object(Self.object($0, names)) })],
            lines: proposals.isEmpty
                ? ["no change waits for another person"] : proposals.flatMap { Self.lines($0, names, at: now) })
    }

    private static func object(_ proposal: ProposalReading, _ names: KeyNames) -> JSONObject {
        [
            "id": .string(proposal.id), "channel": .string(proposal.channel),
            "sequence": proposal.document.map { .integer($0.sequence) } ?? .null,
            "issuedAt": .string(orNull: proposal.document?.issuedAt.description),
            "keyIds": .array(proposal.keyIds.map(JSONValue.string)),
            "signers": .array(proposal.keyIds.map { .string(names.name(of: $0)) }),
            "missing": .integer(proposal.missing), "changes": .array(proposal.changes.map(JSONValue.string)),
            "code": .string(orNull: proposal.refusal?.code.rawValue),
            "refusal": .string(orNull: proposal.refusal?.message),
        ]
    }

    private static func lines(_ proposal: ProposalReading, _ names: KeyNames, at now: Timestamp) -> [String] {
        let signers = proposal.keyIds.map(names.name).joined(separator: " and ")
        let age = proposal.document.map {
            ", \(RosterRule.span(now.secondsSinceEpoch - $0.issuedAt.secondsSinceEpoch)) ago"
        }
        let head =
            "\(proposal.shortID)  channel \(proposal.channel), signed by \(signers.isEmpty ? "no channel key" : signers)\(age ?? "")"
        let state =
            proposal.refusal.map { "    \($0.code.rawValue): \($0.message)" }
            ?? "    waits for \(counted(proposal.missing, "signature")): clientctl release approve \(proposal.id) --channel \(proposal.channel)"
        return [head] + proposal.changes.map { "    \($0)" } + [state]
    }
}

struct ReleaseApprove: ChannelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve",
        abstract: "Add your signature to a change that waits, and publish it when enough keys have signed.",
        discussion: """
            Shows the difference between the channel file and the proposal. With --dry-run,
            it writes nothing, and the start of the ID is enough. Without it, the whole ID
            names the content that you have read. A proposal that builds on an older
            channel file, or that was made for another feed, is refused. Needs the trust
            root (--trust).

            Examples:
              clientctl release approve 7-3f9a0b1c2d3e --dry-run --feed feed \\
                --channel stable --channel-key bob.key.pem --trust trust.json
              clientctl release approve ID --feed feed --channel stable \\
                --channel-key bob.key.pem --trust trust.json
            """)

    @Argument(help: "The ID of the proposal, as `release proposals` prints it. With --dry-run, its start is enough.")
    var id: String

    @OptionGroup var edit: ChannelEditOptions

    func work() -> ChannelWork { ChannelWork { [id] in try $0.approve(id, of: $1) } }

    func run() async throws {
        let (feed, channel) = try edit.place()
        let trust = try edit.trust.map(TrustAnchor.read)
        let found = try ProposalReading.all(of: channel, in: feed, trust: trust, clock: .now).filter {
            $0.id.hasPrefix(id)
        }
        var difference: [String] = []
        if found.count == 1, let document = found[0].document {
            let before = try ChannelText.lines(of: ChannelText.document(of: channel, in: feed))
            let lines = DifferenceLine.lines(from: before, to: try ChannelText.lines(of: document))
            difference = lines.map { $0.map(Self.text) ?? "…" }
            if lines == [nil] { difference = [DifferenceLine.tooLong] }
        }
        try await edit.run(work(), difference: difference)
    }

    private static func text(_ line: DifferenceLine) -> String {
        switch line.kind {
        case .same: "  \(line.text)"
        case .removed: "- \(line.text)"
        case .added: "+ \(line.text)"
        }
    }
}

/// Reads a channel file for a comparison, and writes it as lines of JSON.
enum ChannelText {
    /// Returns the channel file, unverified; nil if there is none. The commands verify it.
    static func document(of channel: String, in feed: any FeedLocation) throws -> ChannelDocument? {
        try ChannelWriter.record(of: channel, in: feed).map {
            try ChannelFormat.parse(ChannelFormat.envelope(parsing: $0.bytes)).claims
        }
    }

    /// Returns the channel file as lines of JSON; nothing without one.
    static func lines(of document: ChannelDocument?) throws -> String {
        guard let document else { return "" }
        let payload = ChannelFormat.payload(document)
        let value = try JSONScanner.parse(payload, maximumBytes: payload.count)
        return String(decoding: JSONWriter.bytes(of: value, layout: .pretty), as: UTF8.self)
    }
}
