import BundleDisk
import BundleSigning
import BundleValues
import Glibc

/// What a publisher signed last for each channel, in a folder outside of every feed: an attacker who can write to a feed cannot change it.
///
/// One file for each application and channel; in it one entry for each set of keys, because feeds with other keys are other feeds.
package struct PublisherMemory: Sendable {
    /// The document of a channel that was signed last, or that was accepted as one that follows from it.
    struct Entry: Sendable, Equatable {
        /// Its sequence.
        let sequence: Int
        /// SHA-256 of its signed bytes.
        let payloadSha256: SHA256Digest
        /// Ids of the keys that signed it.
        let signers: [String]
        /// The address of the feed that it was written to.
        let feed: String
    }

    /// Which channel of which application.
    struct Line: Sendable {
        let appId: String?
        let channel: String

        /// The channel's name, and digits that tell applications apart.
        func fileName() throws -> String {
            let digest = try SHA256Digest.of(Array("\(appId ?? "")\n\(channel)".utf8))
            return "\(channel)-\(digest.hex.prefix(16)).json"
        }
    }

    private static let maximumBytes = 64 << 10
    private static let mostEntries = 16

    private let folder: String

    /// Remembers in `folder`, which need not exist.
    package init(_ folder: String) { self.folder = folder }

    /// Makes the folder if it is missing. Throws if it cannot be written to, or if other users can write to it.
    package func prepare() throws {
        try Directory.createAll(folder, mode: 0o700)
        try requirePrivate()
        if access(folder, W_OK) != 0 { throw DiskError("write to", folder, code: errno) }
    }

    /// The entry of `line` with the highest sequence whose signers are all among `trusted`; nil if there is none. What a replaced key
    /// signed does not count.
    func last(of line: Line, trusting trusted: [String]) throws -> Entry? {
        try entries(of: line).filter { $0.counts(trusting: trusted) }.max { $0.sequence < $1.sequence }
    }

    /// Stores `entry` in the place of the entries whose signers are all among `trusted`.
    func keep(_ entry: Entry, of line: Line, trusting trusted: [String]) throws {
        let present = try entries(of: line)
        let others = present.filter { !$0.counts(trusting: trusted) }
        let next = others.suffix(Self.mostEntries - 1) + [entry]
        if Array(next) == present { return }
        let object: JSONObject = [
            "schema": .integer(1), "appId": .string(orNull: line.appId), "channel": .string(line.channel),
            "entries": .array(next.map(\.json)),
        ]
        try prepare()
        try Directory.open(folder).replaceFile(
            line.fileName(), with: JSONWriter.bytes(of: .object(object), layout: .pretty), mode: 0o600)
    }

    private func requirePrivate() throws {
        if try Directory.open(folder).permissions().mode & 0o022 == 0 { return }
        throw UpdateFailure(
            .configInvalid, subject: folder,
            "Other users can write to \(folder), where this publisher stores what it signed last: run chmod go-w \(folder)."
        )
    }

    private func entries(of line: Line) throws -> [Entry] {
        guard File.exists(folder) else { return [] }
        try requirePrivate()
        let name = try line.fileName()
        guard let bytes = try Directory.open(folder).contents(name, maximumBytes: Self.maximumBytes) else { return [] }
        do {
            let reader = try MemberReader(
                try JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "publisher state")
            return try reader.objects("entries").map(Entry.init)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(folder)/\(name)",
                "\(folder)/\(name), where this publisher stores what it signed last for channel \(line.channel), cannot be read: "
                    + "\(error). Check the channel with `clientctl release list`, then remove that file.")
        }
    }
}

extension PublisherMemory.Entry {
    fileprivate init(_ reader: MemberReader) throws {
        self.init(
            sequence: try reader.integer("sequence"), payloadSha256: try reader.digest("payloadSha256"),
            signers: try reader.strings("signers"), feed: try reader.string("feed"))
    }

    fileprivate var json: JSONValue {
        .object([
            "sequence": .integer(sequence), "payloadSha256": .string(payloadSha256.hex),
            "signers": .array(signers.map(JSONValue.string)), "feed": .string(feed),
        ])
    }

    fileprivate func counts(trusting trusted: [String]) -> Bool { signers.allSatisfy(trusted.contains) }
}
