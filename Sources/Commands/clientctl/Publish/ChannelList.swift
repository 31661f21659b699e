import ArchiveSource
import ArgumentParser
import BundleCore
import BundleDisk
import BundleValues
import BundlePublish

struct ChannelList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Show a channel: its releases, its recalls, and when it expires.",
        discussion: """
            It checks signatures only with --trust. Without --channel it shows all
            channels. Over HTTP, which cannot list folders, --channel is required.

            Examples:
              clientctl channel list --feed feed
              clientctl channel list --feed feed --channel stable --trust trust.json
              clientctl channel list --feed https://updates.example.com \\
                --channel stable
            """)

    @Option(
        help: ArgumentHelp("(required) The feed: a folder, s3://bucket/prefix, or its URL.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Option(help: ArgumentHelp("The channel. (default: all)", valueName: "name"), completion: .channels)
    var channel: String?

    @Option(help: .checkingTrust, completion: .file()) var trust: String?

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let trust = try trust.map(TrustAnchor.read)
        let now = Timestamp.now
        let address = try FlagValue.required(feed, of: "feed")
        let brought = try TemporaryDirectory()
        defer { withExtendedLifetime(brought) {} }
        let isWeb = ["http://", "https://", "file://"].contains { address.hasPrefix($0) }
        let feed: any FeedLocation =
            if isWeb {
                try await bring(channel, of: address, into: brought.directory)
            } else {
                try Wiring.location(at: address, reading)
            }
        let documents = try (channel.map { [$0] } ?? ChannelEditor.channels(in: feed)).map {
            try ChannelEditor.inspect($0, in: feed, trust: trust, clock: now)
        }
        let objects = try documents.map { document, held in
            var object = ChannelView.object(document, now: now)
            object["releases"] = .array(
                try Self.releases(of: document, object: object, held: held, in: isWeb ? nil : feed))
            object["verified"] = .bool(trust != nil)
            return object
        }
        let (versions, offered) = try channel == nil ? ChannelEditor.releases(in: feed) : ([], nil)
        let all: JSONObject = [
            "channels": .array(objects.map(JSONValue.object)),
            "releases": .array(versions.map { .string($0.description) }),
            "offered": .string(orNull: offered?.description),
        ]
        var lines = documents.flatMap { document, held in
            ChannelView.lines(document, held: held, now: now)
                + document.releases.map(\.version).sorted(by: >).flatMap { Self.deltaLines(of: $0, in: feed) }
        }
        if documents.isEmpty {
            lines += try Self.linesWithoutChannels(feed, versions: versions, offered: offered)
        } else if trust == nil {
            lines.append(Self.unverified)
        }
        Output.give(json: common.json, channel == nil ? all : objects.first ?? all, lines: lines)
    }
}

extension ChannelList {
    static let unverified = "Nothing was verified. Give --trust to check signatures."

    /// Downloads the channel file and its holds from a web server, and returns a feed in `folder` that contains them. Deltas are not
    /// downloaded.
    private func bring(
        _ channel: String?, of address: String, into folder: Directory
    ) async throws -> any FeedLocation {
        guard let channel else {
            throw ValidationError("Missing --channel: HTTP cannot list folders, so name a channel.")
        }
        try ChannelView.requireName(channel)
        let base = try Wiring.url(address.hasSuffix("/") ? address : address + "/")
        let fetcher = try Wiring.fetcher(network, for: base)
        let name = ChannelFileName.file(of: channel)
        let bytes = try await ManifestRequest.fetchChannel(base.resolve(relative: "channels/\(name)"), with: fetcher)
        let channels = try folder.directory(creating: "channels")
        try channels.createDurableFile(name, with: bytes)
        // The trust root names the guards, whose holds are in the second file.
        let beside = [
            ("trust.json", folder, TrustRootFormat.maximumBytes),
            ("channels/" + ChannelFileName.holdFile(of: channel), channels, HoldFormat.maximumBytes),
        ]
        for (path, place, limit) in beside {
            guard let bytes = try? await fetcher.fetchBytes(base.resolve(relative: path), maximumBytes: limit) else {
                continue
            }
            try place.createDurableFile(String(path.split(separator: "/").last ?? ""), with: bytes)
        }
        return FeedFolder(folder.path)
    }

    /// Returns the releases in `object`, the output of `document`, with their holds and, if the `feed` is not on a web server, with
    /// their deltas and notes.
    private static func releases(
        of document: ChannelDocument, object: JSONObject, held: [SemanticVersion], in feed: (any FeedLocation)?
    ) throws -> [JSONValue] {
        let releases = (object["releases"]?.arrayValue ?? []).map { withHold($0, held: held) }
        guard let feed else { return releases }
        return try zip(releases, document.releases.sorted { $0.version > $1.version }).map { value, release in
            withDeltas(value, notes: try ReleaseNotes.text(of: release.manifest.claims, in: feed), of: feed)
        }
    }

    /// Returns the lines about a feed without channels. Throws `UpdateFailure` if the location is not a feed.
    private static func linesWithoutChannels(
        _ feed: any FeedLocation, versions: [SemanticVersion], offered: SemanticVersion?
    ) throws -> [String] {
        if try feed.isNew {
            throw UpdateFailure(
                .configInvalid, subject: "\(feed.address)",
                "\(feed.address) has no channels, no releases and no trust root, so it is not a feed. Check the address."
            )
        }
        return ["\(feed.address) has no channels"]
            + versions.map { "  \($0)" + ($0 == offered ? "  offered by manifest.json" : "") }
    }

    private static func withHold(_ release: JSONValue, held: [SemanticVersion]) -> JSONValue {
        guard var object = release.objectValue else { return release }
        object["held"] = .bool(held.contains { object["version"] == .string($0.description) })
        return .object(object)
    }

    private static func withDeltas(_ release: JSONValue, notes: String?, of feed: any FeedLocation) -> JSONValue {
        guard var object = release.objectValue, let text = object["version"]?.stringValue,
            let version = try? SemanticVersion(parsing: text)
        else { return release }
        let deltas = DeltaEditor.list(of: version, in: feed)?.deltas ?? []
        object["notes"] = .string(orNull: notes)
        object["deltas"] = .array(deltas.map { .object(DeltaListFormat.json($0)) })
        return .object(object)
    }

    private static func deltaLines(of version: SemanticVersion, in feed: any FeedLocation) -> [String] {
        (DeltaEditor.list(of: version, in: feed)?.deltas ?? []).map {
            "  delta \($0.baseName) to \(version)  \(ByteCount(bytes: $0.size))"
        }
    }
}
