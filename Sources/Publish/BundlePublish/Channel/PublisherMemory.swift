import BundleDisk
import BundleSigning
import BundleValues
import CLibrary

/// The channel files that a publisher signed last, in a folder outside every feed, where an attacker with write
/// access to a feed cannot change them.
///
/// Each channel of a feed has one file. It has one entry for each set of keys, because feeds with other keys are other
/// feeds. Version 0.9.0 wrote one file for an application and channel in all feeds, which is read until the channel
/// has its own.
package struct PublisherMemory: Sendable {
    /// The channel file that was signed last, or accepted as its successor.
    struct LastSigned: Sendable, Equatable {
        let sequence: Int
        /// The SHA-256 digest of the signed bytes.
        let payloadSha256: SHA256Digest
        /// The IDs of the keys that signed the file.
        let signers: [String]
        /// The address of the feed that the file was written to.
        let feed: String
        /// The digests of the files that were signed before; nil in the file of version 0.9.0.
        var earlier: [SHA256Digest]?
        /// Whether the entry was stored before the file was written, so that the feed may lack the file.
        var isIntended = false

        fileprivate static let mostEarlier = 64

        /// Whether one of its signers is still trusted. After a change of keys, files have the signatures of old and new ones.
        fileprivate func isValid(trusting trusted: [String]) -> Bool { signers.contains(where: trusted.contains) }

        /// Whether the entry is about the feed with the file `shown`.
        fileprivate func applies(to shown: SHA256Digest?) -> Bool { !isIntended || payloadSha256 == shown }
    }

    /// A channel of an application in a feed.
    struct Line: Sendable {
        let appId: String?
        let channel: String
        /// The address of the feed as the operator gave it.
        let address: String
        /// The address without links and relative parts, so that each spelling names the same feed.
        let feed: String

        init(appId: String?, channel: String, in location: any FeedLocation) {
            (self.appId, self.channel, address) = (appId, channel, location.address.description)
            feed = location.address.folder.map { PathLook.resolved($0) ?? $0 } ?? address
        }

        /// Whether `entry` was stored for this feed.
        fileprivate func isFeed(of entry: LastSigned) -> Bool {
            entry.feed == address || entry.feed == feed || PathLook.resolved(entry.feed) == feed
        }

        /// Returns the channel's name with digits that distinguish applications.
        fileprivate func commonName() throws -> String { "\(channel)-\(try Self.digits("\(appId ?? "")\n\(channel)"))" }

        fileprivate func fileName() throws -> String { "\(try commonName())-\(try Self.digits(feed)).json" }

        /// Returns the name of the file that version 0.9.0 wrote.
        fileprivate func sharedFileName() throws -> String { "\(try commonName()).json" }

        private static func digits(_ text: String) throws -> Substring {
            try SHA256Digest.of(Array(text.utf8)).hex.prefix(16)
        }
    }

    private static let maximumBytes = 256 << 10
    private static let mostEntries = 16

    private let folder: String

    /// Uses `folder`, which need not exist.
    package init(_ folder: String) { self.folder = folder }

    /// Creates the folder if it is missing. Throws if this process cannot write to it, or if other users can.
    package func prepare() throws {
        try Directory.createAll(folder, mode: 0o700)
        try requirePrivate()
        if access(folder, W_OK) != 0 { throw DiskError("write to", at: folder, code: errno) }
    }

    /// Returns the entry of `line` with the highest sequence that has a signer in `trusted`. Entries of replaced
    /// keys are ignored.
    ///
    /// Without an entry of this feed, the entry of another feed applies if the file with the digest `shown` was signed
    /// for it: the feed was moved, and the file may be an older one. An entry of version 0.9.0 does not list earlier
    /// files, so it applies to each file.
    func last(of line: Line, trusting trusted: [String], shown: SHA256Digest?) throws -> LastSigned? {
        let own = try entries(in: line.fileName(), of: line)
        let shared = try entries(in: line.sharedFileName(), of: line)
        let valid = (own + shared.filter(line.isFeed)).filter { $0.isValid(trusting: trusted) }
        if let last = valid.filter({ $0.applies(to: shown) }).max(by: { $0.sequence < $1.sequence }) { return last }
        guard let shown else { return nil }
        let others =
            try shared
            + otherFeeds(of: line).filter { $0.payloadSha256 == shown || $0.earlier?.contains(shown) == true }
        return others.filter { $0.isValid(trusting: trusted) }.max { $0.sequence < $1.sequence }
    }

    /// Stores `entry`, which is about to be written, unless the publisher has signed a file of `line` before. Without it, a publisher that
    /// stops after it wrote the feed and before it wrote this folder would not recognize its own file.
    func intend(_ entry: LastSigned, of line: Line, trusting trusted: [String]) throws {
        if try last(of: line, trusting: trusted, shown: nil) != nil { return }
        var entry = entry
        entry.isIntended = true
        // The feed may have the file of an earlier attempt.
        let others = try entries(in: line.fileName(), of: line).filter { $0 != entry }
        try write(others.suffix(Self.mostEntries - 1) + [entry], to: line.fileName(), of: line)
    }

    /// Stores `entry`, and removes the entries that have a signer in `trusted`. `isMoved` states that the entries of
    /// version 0.9.0 are about this feed, whatever their address.
    func keep(_ entry: LastSigned, of line: Line, trusting trusted: [String], isMoved: Bool = false) throws {
        let present = try entries(in: line.fileName(), of: line)
        let shared = try entries(in: line.sharedFileName(), of: line)
        let isReplaced = { (other: LastSigned) in
            other.isValid(trusting: trusted) && (isMoved || line.isFeed(of: other))
        }
        let replaced = present.filter { $0.isValid(trusting: trusted) } + shared.filter(isReplaced)
        var earlier = replaced.flatMap { ($0.earlier ?? []) + [$0.payloadSha256] }.filter { $0 != entry.payloadSha256 }
        for (index, digest) in earlier.enumerated().reversed() where earlier[..<index].contains(digest) {
            earlier.remove(at: index)
        }
        var entry = entry
        entry.earlier = Array(earlier.suffix(LastSigned.mostEarlier))
        let others = present.filter { !$0.isValid(trusting: trusted) }
        let next = others.suffix(Self.mostEntries - 1) + [entry]
        if Array(next) != present { try write(Array(next), to: line.fileName(), of: line) }
        let rest = shared.filter { !isReplaced($0) }
        if rest.isEmpty, !shared.isEmpty { try Directory.open(folder).removeFile(line.sharedFileName()) }
        if !rest.isEmpty, rest != shared { try write(rest, to: line.sharedFileName(), of: line) }
    }

    private func write(_ entries: [LastSigned], to name: String, of line: Line) throws {
        let object: JSONObject = [
            "schema": .integer(1), "appId": .string(orNull: line.appId), "channel": .string(line.channel),
            "entries": .array(entries.map(\.json)),
        ]
        try prepare()
        try Directory.open(folder).replaceFile(
            name, with: JSONWriter.bytes(of: .object(object), layout: .pretty), mode: 0o600)
    }

    /// Returns the entries of the same channel in other feeds.
    private func otherFeeds(of line: Line) throws -> [LastSigned] {
        guard File.exists(folder) else { return [] }
        let prefix = Array("\(try line.commonName())-".utf8)
        let names = try Directory.open(folder).entries().map(\.name).filter {
            $0.starts(with: prefix) && $0.reversed().starts(with: ".json".utf8.reversed())
        }
        return try names.compactMap { String(validating: $0, as: UTF8.self) }.sorted().flatMap {
            try entries(in: $0, of: line)
        }
    }

    private func requirePrivate() throws {
        if try Directory.open(folder).permissions().mode & 0o022 == 0 { return }
        throw UpdateFailure(
            .configInvalid, subject: folder,
            "Other users can write to \(folder), where this publisher records what it signed last. Run chmod go-w \(folder)."
        )
    }

    private func entries(in name: String, of line: Line) throws -> [LastSigned] {
        guard File.exists(folder) else { return [] }
        try requirePrivate()
        guard let bytes = try Directory.open(folder).contents(name, maximumBytes: Self.maximumBytes) else { return [] }
        do {
            let reader = try MemberReader(
                try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "publisher state")
            return try reader.objects("entries").map(LastSigned.init)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(folder)/\(name)",
                "\(folder)/\(name), where this publisher records what it signed last for channel \(line.channel), cannot be read: "
                    + "\(error). Check the channel with `clientctl channel list`, then remove that file.")
        }
    }
}

extension PublisherMemory.LastSigned {
    fileprivate init(_ reader: MemberReader) throws {
        self.init(
            sequence: try reader.integer("sequence"), payloadSha256: try reader.digest("payloadSha256"),
            signers: try reader.strings("signers"), feed: try reader.string("feed"),
            earlier: try reader.optional("earlier") == nil
                ? nil : reader.strings("earlier").map { try SHA256Digest(parsingHex: $0) },
            isIntended: reader.object["isIntended"] == .bool(true))
    }

    fileprivate var json: JSONValue {
        var object: JSONObject = [
            "sequence": .integer(sequence), "payloadSha256": .string(payloadSha256.hex),
            "signers": .array(signers.map(JSONValue.string)), "feed": .string(feed),
        ]
        object["earlier"] = earlier.map { JSONValue.array($0.map { JSONValue.string($0.hex) }) }
        if isIntended { object["isIntended"] = .bool(true) }
        return .object(object)
    }
}
