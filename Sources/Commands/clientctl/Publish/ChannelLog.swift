import BundleFormats
import ArgumentParser
import BundleValues
import BundlePublish

struct ChannelLog: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show the history of a channel: the changes, their times and the keys that signed them.",
        discussion: """
            The history is in the numbered copies of the channel file,
            FEED/channels/NAME/N.json, which devices never read. It checks signatures only
            with --trust. With a trust root there, it shows the labels of keys.

            Examples:
              clientctl channel log --feed feed --channel stable
              clientctl channel log --feed feed --channel stable --trust trust.json
            """)

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(help: .channel, completion: .channels) var channel: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup var common: CommonOptions

    func run() throws {
        let trust = try trust.map(TrustAnchor.read)
        let feed = try Wiring.location(at: FlagValue.required(feed, of: "feed"), reading)
        let channel = try FlagValue.required(channel, of: "channel")
        try ChannelView.requireName(channel)
        let entries = try Array(ChannelHistory(channel, in: feed, trust: trust, clock: .now).entries.reversed())
        let names = try KeyNames(in: feed, trust: trust, clock: .now)
        if entries.isEmpty { try ChannelEditor.requireChannel(channel, in: feed) }
        Output.give(
            json: common.json,
            ["channel": .string(channel), "entries": .array(entries.map { .object(Self.object($0, names)) })],
            lines: entries.isEmpty
                ? [
                    "\(feed.address) has no copies of channel \(UntrustedName.display(channel)): its next change creates one"
                ]
                : entries.flatMap { Self.lines($0, names) } + (trust == nil ? [ChannelList.unverified] : []))
    }

    private static func object(_ entry: ChannelHistory.Record, _ names: KeyNames) -> JSONObject {
        [
            "sequence": .integer(entry.document.sequence), "issuedAt": .string(entry.document.issuedAt.description),
            "expires": .string(entry.document.expires.description),
            "keyIds": .array(entry.keyIds.map(JSONValue.string)),
            "signers": .array((entry.signers ?? []).map { .string(names.name(of: $0)) }),
            "verified": entry.isVerified.map(JSONValue.bool) ?? .null,
            "changes": .array(entry.changes.map(JSONValue.string)),
        ]
    }

    private static func lines(_ entry: ChannelHistory.Record, _ names: KeyNames) -> [String] {
        // The file states its other keys without proof.
        let keys = entry.keyIds.map { id in
            entry.signers?.contains(id) == true ? names.name(of: id) : UntrustedName.display(id)
        }.joined(separator: ", ")
        return [
            "\(entry.document.sequence)  \(entry.document.issuedAt)  by \(keys.isEmpty ? "no key" : keys)"
                + (entry.isVerified == false ? "  NOT VERIFIED by --trust" : "")
        ] + entry.changes.map { "    \($0)" }
    }
}
