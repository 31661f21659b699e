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
            with --trust.

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
        if entries.isEmpty { try ChannelEditor.requireChannel(channel, in: feed) }
        Output.give(
            json: common.json,
            ["channel": .string(channel), "entries": .array(entries.map { .object(Self.object($0)) })],
            lines: entries.isEmpty
                ? [
                    "\(feed.address) has no copies of channel \(UntrustedName.display(channel)): its next change creates one"
                ]
                : entries.flatMap(Self.lines) + (trust == nil ? [ChannelList.unverified] : []))
    }

    private static func object(_ entry: ChannelHistory.Record) -> JSONObject {
        [
            "sequence": .integer(entry.document.sequence), "issuedAt": .string(entry.document.issuedAt.description),
            "expires": .string(entry.document.expires.description),
            "keyIds": .array(entry.keyIds.map(JSONValue.string)),
            "verified": entry.isVerified.map(JSONValue.bool) ?? .null,
            "changes": .array(entry.changes.map(JSONValue.string)),
        ]
    }

    private static func lines(_ entry: ChannelHistory.Record) -> [String] {
        let keys = entry.keyIds.map { UntrustedName.display($0) }.joined(separator: ", ")
        return [
            "\(entry.document.sequence)  \(entry.document.issuedAt)  by \(keys.isEmpty ? "no key" : keys)"
                + (entry.isVerified == false ? "  NOT VERIFIED by --trust" : "")
        ] + entry.changes.map { "    \($0)" }
    }
}
