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

    @Option(help: ArgumentHelp("The channel. (default: all)", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp("Check signatures with this PEM key, folder of *.pem or trust root.", valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup var reading: BucketReading
    @OptionGroup var network: NetworkOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        let now = Timestamp.now
        let named = try settings.optional("channel", channel)
        let address = try settings.required("feed", feed)
        let brought = try TemporaryDirectory()
        defer { withExtendedLifetime(brought) {} }
        let isWeb = ["http://", "https://", "file://"].contains { address.hasPrefix($0) }
        let feed: any FeedLocation =
            if isWeb {
                try await bring(named, of: address, into: brought.directory, settings)
            } else {
                try Wiring.place(at: address, reading, settings)
            }
        let documents = try (named.map { [$0] } ?? ChannelEditor.channels(in: feed)).map {
            try ChannelEditor.inspect($0, in: feed, trust: trust, clock: now)
        }
        let objects = try documents.map { document, held in
            var object = ChannelView.object(document, now: now)
            let releases = (object["releases"]?.arrayValue ?? []).map { Self.withHold($0, held) }
            object["releases"] = .array(releases)
            if !isWeb {
                object["releases"] = .array(
                    try zip(releases, document.releases.sorted { $0.version > $1.version }).map { value, release in
                        Self.withDeltas(value, try ReleaseNotes.text(of: release.manifest.claims, in: feed), of: feed)
                    })
            }
            object["verified"] = .bool(trust != nil)
            return object
        }
        let (versions, offered) = try named == nil ? ChannelEditor.releases(in: feed) : ([], nil)
        let all: JSONObject = [
            "channels": .array(objects.map(JSONValue.object)),
            "releases": .array(versions.map { .string($0.description) }),
            "offered": .string(orNull: offered?.description),
        ]
        var lines: [String] = []
        for (document, held) in documents {
            lines += ChannelView.lines(document, held: held, now: now)
            for version in document.releases.map(\.version).sorted(by: >) {
                lines += Self.deltaLines(of: version, in: feed)
            }
        }
        if documents.isEmpty {
            if try feed.isNew {
                throw UpdateFailure(
                    .configInvalid, subject: feed.address,
                    "\(feed.address) has no channels, no releases and no trust root, so it is not a feed. Check the address."
                )
            }
            lines += ["\(feed.address) has no channels"]
            lines += versions.map { "  \($0)" + ($0 == offered ? "  offered by manifest.json" : "") }
        } else if trust == nil {
            lines.append(Self.unverified)
        }
        Output.give(
            json: try settings.isOn("json", common.json), named == nil ? all : objects.first ?? all, lines)
    }
}

extension ChannelList {
    static let unverified = "Nothing was verified. Give --trust to check signatures."

    /// Downloads the channel file and its holds from a web server, and returns a feed in `folder` that contains them. Deltas are not
    /// downloaded.
    private func bring(
        _ channel: String?, of address: String, into folder: Directory, _ settings: Settings
    ) async throws -> any FeedLocation {
        guard let channel else {
            throw ValidationError("Missing --channel: HTTP cannot list folders, so name a channel.")
        }
        try ChannelView.requireName(channel)
        let base = try Wiring.url(address.hasSuffix("/") ? address : address + "/")
        let fetcher = try Wiring.fetcher(network, for: base, settings)
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

    private static func withHold(_ release: JSONValue, _ held: [SemanticVersion]) -> JSONValue {
        guard var object = release.objectValue else { return release }
        object["held"] = .bool(held.contains { object["version"] == .string($0.description) })
        return .object(object)
    }

    private static func withDeltas(_ release: JSONValue, _ notes: String?, of feed: any FeedLocation) -> JSONValue {
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

    @Option(
        help: ArgumentHelp("(required) The feed: a folder or s3://bucket/prefix.", valueName: "place"),
        completion: .directory)
    var feed: String?

    @Option(help: ArgumentHelp("(required) The channel.", valueName: "name"))
    var channel: String?

    @Option(
        help: ArgumentHelp("Check signatures with this PEM key, folder of *.pem or trust root.", valueName: "path"),
        completion: .file())
    var trust: String?

    @OptionGroup var reading: BucketReading
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let trust = try settings.optional("trust", trust).map(TrustAnchor.read)
        let feed = try Wiring.place(at: settings.required("feed", feed), reading, settings)
        let channel = try settings.required("channel", channel)
        try ChannelView.requireName(channel)
        let entries = try Array(ChannelHistory(channel, in: feed, trust: trust, clock: .now).entries.reversed())
        if entries.isEmpty { try ChannelEditor.requireChannel(channel, in: feed) }
        Output.give(
            json: try settings.isOn("json", common.json),
            ["channel": .string(channel), "entries": .array(entries.map { .object(Self.object($0)) })],
            entries.isEmpty
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

enum ChannelView {
    static func requireName(_ channel: String) throws {
        guard ChannelFileName.isName(channel) else {
            throw ValidationError("--channel: \(UntrustedName.display(channel)) is not the name of a channel.")
        }
    }

    static func object(_ document: ChannelDocument, now: Timestamp) -> JSONObject {
        [
            "channel": .string(document.channel), "appId": .string(orNull: document.appId),
            "sequence": .integer(document.sequence), "issuedAt": .string(document.issuedAt.description),
            "expires": .string(document.expires.description), "expired": .bool(document.expires <= now),
            "minimumVersion": .string(orNull: document.minimumVersion?.description),
            "poll": document.poll.map {
                .object(["interval": .integer($0.interval), "jitter": .integer($0.jitter)])
            } ?? .null,
            "busyLimit": document.busyLimit.map(JSONValue.integer) ?? .null,
            "releases": .array(sorted(document).map { .object(object($0, in: document, now: now)) }),
            "recalled": .array(
                document.recalled.map {
                    .object(["version": .string($0.version.description), "reason": .string($0.reason)])
                }),
        ]
    }

    private static func sorted(_ document: ChannelDocument) -> [ChannelDocument.Release] {
        document.releases.sorted { $0.version > $1.version }
    }

    private static func object(
        _ release: ChannelDocument.Release, in document: ChannelDocument, now: Timestamp
    ) -> JSONObject {
        let claims = release.manifest.claims
        return [
            "version": .string(release.version.description),
            "rollout": .string(RolloutPercentage(permille: release.share(at: now)).description),
            "ramp": release.ramp.map(object) ?? .null,
            "groups": .array(release.groups.map(JSONValue.string)), "only": .bool(release.isOnlyForGroups),
            "urgent": .bool(release.isUrgent), "retries": .integer(release.retries),
            "paused": .bool(release.isPaused), "recalled": .bool(isRecalled(release, document)),
            "minShellVersion": .string(claims.shells.minimum.description),
            "maxShellVersion": .string(orNull: claims.shells.maximum?.description),
            "createdAt": .string(orNull: claims.createdAt?.description),
            "size": claims.size.map(JSONValue.integer) ?? .null,
            "keyId": .string(orNull: claims.keyId), "notes": .null,
        ]
    }

    private static func object(_ ramp: Ramp) -> JSONValue {
        let steps = ramp.steps.map { step in
            JSONValue.object([
                "at": .string(step.at.description), "rollout": .string("\(RolloutPercentage(permille: step.rollout))"),
            ])
        }
        return .object(["steps": .array(steps), "heldAt": .string(orNull: ramp.heldAt?.description)])
    }

    private static func isRecalled(_ release: ChannelDocument.Release, _ document: ChannelDocument) -> Bool {
        document.recalled.contains { $0.version == release.version }
            || document.minimumVersion.map { release.version < $0 } == true
    }

    static func lines(_ document: ChannelDocument, held: [SemanticVersion] = [], now: Timestamp) -> [String] {
        let isLate = document.expires <= now
        var lines = [
            "channel \(document.channel) of \(UntrustedName.display(document.appId ?? "an unnamed application")), "
                + "sequence \(document.sequence)",
            "  issued   \(document.issuedAt)",
            "  expires  \(document.expires)"
                + (isLate ? "  EXPIRED: devices install nothing from it, sign it again" : ""),
        ]
        if let poll = document.poll { lines.append("  " + ChannelDocument.words(poll)) }
        if let limit = document.busyLimit { lines.append("  " + ChannelDocument.words(busyLimit: limit)) }
        if let floor = document.minimumVersion { lines.append("  nothing below \(floor) may run") }
        for release in sorted(document) {
            lines.append("  " + line(release, document, isHeld: held.contains(release.version), now))
            lines += rampLines(release, now).map { "    " + $0 }
        }
        return lines + document.recalled.map { "  recalled \($0.version): \(UntrustedName.display($0.reason))" }
    }

    /// Returns the lines about the remaining steps of a ramp; none if all steps have passed.
    private static func rampLines(_ release: ChannelDocument.Release, _ now: Timestamp) -> [String] {
        guard let ramp = release.ramp, case let rest = ramp.remaining(at: now), !rest.isEmpty else { return [] }
        if let heldAt = ramp.heldAt {
            return ["paused since \(heldAt); to come: \(Ramp.words(rest)), delayed by the pause"]
        }
        return ["to come: \(Ramp.words(rest))"]
    }

    private static func line(
        _ release: ChannelDocument.Release, _ document: ChannelDocument, isHeld: Bool, _ now: Timestamp
    ) -> String {
        let claims = release.manifest.claims
        let shells = claims.shells
        var words = [
            "\(release.version)", release.audience(at: now),
            "shells \(shells.minimum) to \(shells.maximum.map { "\($0)" } ?? "any")",
        ]
        if let size = claims.size { words.append("\(ByteCount(bytes: size))") }
        if let time = claims.createdAt { words.append("\(time)") }
        if release.isUrgent { words.append("urgent") }
        if release.retries > 0 { words.append("retry \(release.retries)") }
        if release.isPaused { words.append(isHeld ? "held" : "paused") }
        if isRecalled(release, document) { words.append("RECALLED") }
        return words.joined(separator: "  ")
    }
}
