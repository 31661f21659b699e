import BundleDisk
import BundleSigning
import BundleValues
import CLibrary

/// The channel files that a publisher signed last, in a folder outside every feed, where an attacker with write
/// access to a feed cannot change them.
///
/// Each application and channel has one file. It has one entry for each set of keys, because feeds with other keys
/// are other feeds.
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
    }

    /// A channel of an application.
    struct Line: Sendable {
        let appId: String?
        let channel: String

        /// Returns the channel's name with digits that distinguish applications.
        func fileName() throws -> String {
            let digest = try SHA256Digest.of(Array("\(appId ?? "")\n\(channel)".utf8))
            return "\(channel)-\(digest.hex.prefix(16)).json"
        }
    }

    private static let maximumBytes = 64 << 10
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

    /// Returns the entry of `line` with the highest sequence whose signers are all in `trusted`. Entries of replaced
    /// keys are ignored.
    func last(of line: Line, trusting trusted: [String]) throws -> LastSigned? {
        try entries(of: line).filter { $0.isValid(trusting: trusted) }.max { $0.sequence < $1.sequence }
    }

    /// Stores `entry`, and removes the entries whose signers are all in `trusted`.
    func keep(_ entry: LastSigned, of line: Line, trusting trusted: [String]) throws {
        let present = try entries(of: line)
        let others = present.filter { !$0.isValid(trusting: trusted) }
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
            "Other users can write to \(folder), where this publisher records what it signed last. Run chmod go-w \(folder)."
        )
    }

    private func entries(of line: Line) throws -> [LastSigned] {
        guard File.exists(folder) else { return [] }
        try requirePrivate()
        let name = try line.fileName()
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
            signers: try reader.strings("signers"), feed: try reader.string("feed"))
    }

    fileprivate var json: JSONValue {
        .object([
            "sequence": .integer(sequence), "payloadSha256": .string(payloadSha256.hex),
            "signers": .array(signers.map(JSONValue.string)), "feed": .string(feed),
        ])
    }

    fileprivate func isValid(trusting trusted: [String]) -> Bool { signers.allSatisfy(trusted.contains) }
}
