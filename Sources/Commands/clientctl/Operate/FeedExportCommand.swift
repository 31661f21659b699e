import BundleFormats
import ArgumentParser
import BundlePublish
import BundleValues
import BundleShell

struct FeedExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write an offline kit of a feed to a folder, such as on a USB drive.",
        discussion: """
            The kit contains trust roots, channel files, manifest.json, and the releases
            that these offer with their deltas. It contains no older releases. The command
            checks the kit as a device would before it renames it to --to, so an
            interrupted run leaves no kit. README.txt in the kit explains how to install
            from it.

            Examples:
              clientctl feed export --feed feed --to /media/usb/kit
              clientctl feed export --feed s3://bucket/prefix --to kit --channel stable \\
                --trust trust.json
            """)

    @Option(help: .feed, completion: .directory) var feed: String?

    @Option(
        help: ArgumentHelp("(required) The folder for the kit. It must be empty or not exist.", valueName: "dir"),
        completion: .directory)
    var to: String?

    @Option(
        help: ArgumentHelp(
            "Channel to export; stable includes manifest.json. Repeatable (default: all).",
            valueName: "name"))
    var channel: [String] = []

    @Option(
        help: ArgumentHelp(
            "Key, folder of keys or trust root that devices trust, to check the kit with (default: the feed's own root).",
            valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let target = try FlagValue.required(to, of: "to")
        let trust = try trust.map(TrustAnchor.read)
        for channel in channel { try ChannelView.requireName(channel) }
        let source = try Wiring.location(at: FlagValue.required(feed, of: "feed"), reading)
        if let feed = source.address.folder, try Wiring.isInside(target, folder: feed) {
            throw UpdateFailure(
                .configInvalid, subject: target,
                "\(target) is in the feed \(feed), so the kit would be published with it. Give a folder outside the feed."
            )
        }
        let report = try await FeedExport(of: source, trust: trust, clock: .now).run(
            to: target, channels: channel, with: DeviceContainer.fetcher(.command))
        for left in report.leftOut { Output.warn(left.advice) }
        Output.give(
            json: common.json, afterChange: true, Self.object(report, in: target), lines: Self.lines(report, in: target)
        )
    }

    private static func bytes(_ report: FeedExport.Kit) -> Int { report.written.reduce(0) { $0 + $1.size } }

    private static func object(_ report: FeedExport.Kit, in target: String) -> JSONObject {
        [
            "outcome": .string("exported"), "to": .string(target), "verifiedBy": .string(report.verifiedBy.rawValue),
            "bytes": .integer(bytes(report)),
            "offered": report.offered.map { .string($0.description) } ?? .null,
            "channels": .array(
                report.channels.sorted { $0.key < $1.key }.map {
                    .object(["channel": .string($0.key), "sequence": .integer($0.value)])
                }),
            "releases": .array(report.releases.map { .string($0.description) }),
            "leftOut": .array(report.leftOut.map { .string($0.version.description) }),
            "written": .array(report.written.map { .string($0.name) }),
        ]
    }

    private static func lines(_ report: FeedExport.Kit, in target: String) -> [String] {
        let verdict =
            switch report.verifiedBy {
            case .given: "A device with the same --trust accepts this kit."
            case .feed:
                "The kit was checked with its own trust root. Give --trust to check it with the keys that devices trust."
            case .nobody: ChannelList.unverified
            }
        return report.channels.sorted { $0.key < $1.key }.map { "channel \($0.key) has sequence \($0.value)" }
            + (report.offered.map { ["manifest.json offers \($0)"] } ?? [])
            + ["releases: \(report.releases.map(\.description).joined(separator: ", "))"]
            + [
                "wrote \(counted(report.written.count, "file")), \(ByteCount(bytes: bytes(report))), to \(target)",
                verdict,
            ]
    }
}
