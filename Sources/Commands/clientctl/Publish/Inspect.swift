import BundleFormats
import ArgumentParser
import BundleArchive
import BundleCore
import BundleValues
import BundleDisk
import BundlePublish

struct Inspect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract:
            "Show a manifest, a channel file, a trust root, a list of deltas or an archive without verifying it.",
        discussion: """
            To check signatures, use clientctl verify.

            Examples:
              clientctl inspect https://updates.example.com/manifest.json
              clientctl inspect https://updates.example.com/channels/stable.json
              clientctl inspect client-v1.5.0.tar.zst
            """)

    @Argument(
        help: "A URL (https, http, file, s3) or a path. The path of a feed means its manifest.json.",
        completion: .file())
    var source: String

    @OptionGroup(title: "Bucket") var reading: BucketReading
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let limits = try limits.limits()
        // Temporary files are removed before the output, because a closed pipe may end this process.
        let (object, lines) = try await description(limits)
        Output.give(json: common.json, object, lines: lines)
    }

    private func description(_ limits: ArchiveLimits) async throws -> (JSONObject, [String]) {
        switch try Wiring.document(source, reading) {
        case .file(let path): return try describe(any: try File.open(reading: path), limits: limits)
        case .stored(let feed, let path):
            let temporary = try TemporaryDirectory()
            defer { withExtendedLifetime(temporary) {} }
            try FeedCopy.copyRelease(path, from: feed, into: temporary.directory, limits: limits)
            return try describe(any: try temporary.directory.file(path), limits: limits)
        case .web(let url):
            let temporary = try TemporaryDirectory()
            defer { withExtendedLifetime(temporary) {} }
            let file = try await SpoolFile.fetch(
                url, with: try Wiring.fetcher(network, for: url),
                maximumBytes: max(limits.archiveBytes, ManifestFormat.maximumBytes), into: temporary.directory)
            return try describe(any: file, limits: limits)
        }
    }

    private func describe(any file: File, limits: ArchiveLimits) throws -> (JSONObject, [String]) {
        let first = try file.head(64).first { !" \t\r\n".utf8.contains($0) }
        guard first == UInt8(ascii: "{") else { return try describe(file, limits: limits) }
        return try describe(try file.readAll(maximumBytes: ChannelFormat.maximumBytes))
    }

    /// Describes a signed file by its `payloadType`. A file without one is parsed as a manifest.
    private func describe(_ bytes: [UInt8]) throws -> (JSONObject, [String]) {
        let members = (try? JSONScanner.parse(bytes, maximumBytes: bytes.count))?.objectValue
        var described: (kind: String, object: JSONObject, lines: [String])
        switch members?["payloadType"]?.stringValue {
        case ChannelFormat.payloadType:
            let document = try ChannelFormat.parse(try ChannelFormat.envelope(parsing: bytes))
            described = (
                "channel", ChannelView.object(document.claims, now: .now), ChannelView.lines(document.claims, now: .now)
            )
            described.object["signatures"] = .array(
                document.envelope.signatures.map { .object(["keyId": .string(orNull: $0.keyId)]) })
        case TrustRootFormat.payloadType:
            let root = TrustFile.of(try TrustRootFormat.parse(bytes))
            described = ("trustRoot", TrustView.object(root), TrustView.lines(root, now: .now))
        case HoldFormat.payloadType:
            let hold = try HoldFormat.parse(try HoldFormat.envelope(parsing: bytes))
            described = ("hold", HoldView.object(hold), HoldView.lines(hold))
        case DeltaListFormat.payloadType:
            let list = try DeltaListFormat.parse(try DeltaListFormat.envelope(parsing: bytes))
            described = ("deltas", DeltaLines.object(list), ["deltas to \(list.version)"] + DeltaLines.lines(list))
        default: return describe(try ManifestFormat.parse(bytes))
        }
        return (
            ["kind": .string(described.kind), "verified": .bool(false), described.kind: .object(described.object)],
            ["Nothing was verified."] + described.lines
        )
    }

    private func describe(_ manifest: UnverifiedManifest) -> (JSONObject, [String]) {
        let members = manifest.document.objectValue?.members ?? []
        let width = members.map(\.name.utf8.count).max() ?? 0
        return (
            ["kind": .string("manifest"), "verified": .bool(false), "manifest": manifest.document],
            ["a manifest; nothing was verified"]
                + members.map { member in
                    let name = UntrustedName.display(member.name)
                    let value =
                        member.value.stringValue ?? String(decoding: JSONWriter.bytes(of: member.value), as: UTF8.self)
                    return "  \(name)\(String(repeating: " ", count: max(0, width - name.utf8.count)))  "
                        + UntrustedName.display(value)
                }
        )
    }

    private func describe(_ file: File, limits: ArchiveLimits) throws -> (JSONObject, [String]) {
        let listing = try ArchiveListing.read(file, limits: limits)
        // A file without a known signature is read as tar, because tar has no signature at its start.
        if listing.format == .tar, listing.entries.isEmpty, try file.head(512).contains(where: { $0 != 0 }) {
            throw UpdateFailure(
                .manifestMalformed, subject: source,
                "clientctl does not recognize \(UntrustedName.display(source)). Give a manifest, a channel file, a trust root, a "
                    + "list of deltas or an archive.")
        }
        let isLimit = listing.entries.count == limits.entries
        let count = counted(listing.entries.count, "entry", "entries") + (isLimit ? " or more" : "")
        return (
            [
                "kind": .string("archive"), "verified": .bool(false), "format": .string(listing.format.rawValue),
                "installable": .bool(listing.refusal == nil),
                "refusal": listing.refusal.map { .string($0.failure.subject) } ?? .null,
                "origins": listing.origins.json,
                "entries": .array(
                    listing.entries.map {
                        .object([
                            "path": .string($0.shownName), "kind": .string($0.kind.rawValue),
                            "size": $0.size.map(JSONValue.integer) ?? .null,
                        ])
                    }),
            ],
            [
                "an archive (\(listing.format.rawValue)), \(count); not checked: install applies further rules"
            ]
                + listing.entries.map { "  \($0.kind.rawValue)  \(ByteCount(bytes: $0.size ?? 0))  \($0.shownName)" }
                + listing.origins.lines.map { "  declares  \($0)" }
                + (listing.refusal.map { ["install would refuse it: \($0.failure.message)"] } ?? [])
        )
    }
}
