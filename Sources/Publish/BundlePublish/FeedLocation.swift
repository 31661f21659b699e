import BundleFormats
package import BundleDisk
import BundleSigning
package import BundleValues
import CLibrary

/// Identifies the state of a file; it changes when the file is replaced.
package struct FeedVersion: Hashable, Sendable {
    /// The location's identifier of the state.
    package let token: String

    package init(_ token: String) { self.token = token }
}

/// A file of a feed.
package struct FeedRecord: Equatable, Sendable {
    package let bytes: [UInt8]
    /// The version to pass to `replace`.
    package let version: FeedVersion

    package init(_ bytes: [UInt8], version: FeedVersion) {
        self.bytes = bytes
        self.version = version
    }
}

/// An entry in the listing of a feed.
package struct FeedEntry: Hashable, Sendable {
    /// The path below the feed.
    package let name: String
    package let size: Int
    /// The time when the file was written; nil if the location does not report it.
    var written: Timestamp?
}

/// The content of a new file.
package enum FeedContent {
    case bytes([UInt8])
    /// A file that is read during the write, because it may be large.
    case file(File)

    func size() throws -> Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .file(let file): try file.size()
        }
    }

    func sha256() throws -> SHA256Digest {
        switch self {
        case .bytes(let bytes): try SHA256Digest.of(bytes)
        case .file(let file): try file.sha256()
        }
    }
}

/// The storage of a feed. Some files are created once and never change; others are replaced, conditionally on their
/// version.
///
/// A name is a path below the feed of letters, digits and `._-+~`, such as `channels/stable.json`. Readers see the
/// old bytes or the new bytes of a file, never a part. A location belongs to one command.
package protocol FeedLocation: AnyObject {
    var address: LocationAddress { get }

    /// Returns the file; nil if it does not exist. Throws if it is larger than `maximumBytes`.
    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord?
    /// Passes the file's bytes to `body` in order. Returns false if the file does not exist. Throws `sizeMismatch` if
    /// it has more than `maximumBytes`.
    func stream(
        _ name: String, maximumBytes: Int, body: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Bool
    /// Creates the file. Returns false, and changes nothing, if it exists.
    func create(_ name: String, with content: FeedContent) throws -> Bool
    /// Replaces the file that was read as `version`, nil for a file that did not exist. Throws `FeedConflict` if it
    /// has changed since.
    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws
    /// Removes the file, if it exists. With a slash at its end, the name is that of a folder, whose files are removed.
    /// If this process stops, the folder of a release is complete or has no manifest and is not a release.
    func remove(_ name: String) throws
    /// Returns the files below `folder` in no order, without drafts. The empty name lists all files.
    func list(_ folder: String) throws -> [FeedEntry]

    // The following have defaults.

    /// Runs `work` with other publishers locked out, as far as the location can. A conflict that it cannot prevent is
    /// a `FeedConflict`. The default runs `work` alone.
    func exclusive<Answer>(_ wait: FeedWait, work: () throws -> Answer) throws -> Answer
    /// Creates a draft of a release under a name that no reader requests. The default is a local folder.
    func draft(_ wait: FeedWait) throws -> any ReleaseDraft
    /// Returns the requests of a write, for the report of a dry run; `isFirst` for the first write of the command. The
    /// default is the write alone.
    func requests(of write: FeedWrite, isFirst: Bool) -> [FeedWrite]
}

extension FeedLocation {
    package func exclusive<Answer>(_ wait: FeedWait, work: () throws -> Answer) throws -> Answer { try work() }

    package func draft(_ wait: FeedWait) throws -> any ReleaseDraft { try UploadDraft(to: self) }

    package func requests(of write: FeedWrite, isFirst: Bool) -> [FeedWrite] { [write] }

    /// Removes the files below `folder` one by one, the manifest of a release first. For locations without folders.
    func removeFiles(below folder: String) throws {
        try remove(folder + ReleaseFeed.manifestName)
        for entry in try list(String(folder.dropLast())) { try remove(entry.name) }
    }
}

/// The longest wait for other publishers of the same feed, and the report of the wait.
package struct FeedWait: Sendable {
    /// Locks are short: packing and signing commands run without one.
    package static let standard = Duration.seconds(30)

    let limit: Duration
    let environment: Environment

    /// Waits for up to `limit`; the log receives a message when a wait begins.
    package init(_ limit: Duration = standard, environment: Environment = Environment()) {
        self.limit = limit
        self.environment = environment
    }
}

/// Another publisher created, replaced or removed a file that was to be replaced. The caller reads the file again and
/// retries.
package struct FeedConflict: ClassifiedFailure, Equatable {
    package let name: String
    private let address: LocationAddress

    package init(_ name: String, in location: any FeedLocation) {
        self.name = name
        address = location.address
    }

    package var failure: UpdateFailure {
        UpdateFailure(
            .storeLocked, subject: "\(address)/\(name)",
            "Another publisher changed \(name) of the feed \(address), so nothing was written. Run the command again.")
    }
}

extension FeedLocation {
    /// Whether no device can follow the feed yet: it has no release, channel or trust root.
    package var isNew: Bool {
        get throws {
            for name in [ReleaseFeed.manifestName, FeedTrust.fileName] {
                if try read(name, maximumBytes: Self.largestDocument) != nil { return false }
            }
            return try list(ChannelWriter.folder).isEmpty && list(ReleaseFeed.releasesName).isEmpty
        }
    }

    /// The note about a new feed, whose address may be misspelled.
    package var isNewNote: String {
        "\(address) is a new feed, which no device follows yet. If your devices follow one already, check the address."
    }

    private static var largestDocument: Int { max(ManifestFormat.maximumBytes, TrustRootFormat.maximumBytes) }

    /// Returns the SHA-256 digest of a file; nil if it does not exist. Throws `sizeMismatch` if it has more than
    /// `maximumBytes`.
    func digest(of name: String, maximumBytes: Int) throws -> SHA256Digest? {
        var hasher = try SHA256Hasher()
        guard try stream(name, maximumBytes: maximumBytes, body: { try hasher.update($0) }) else { return nil }
        return try hasher.finish()
    }

    /// Returns whether a file has at most `size` bytes and that digest; nil if it does not exist.
    func holds(_ name: String, digest: SHA256Digest, size: Int) throws -> Bool? {
        do {
            return try self.digest(of: name, maximumBytes: size).map { $0 == digest }
        } catch  where UpdateFailure(error).code == .sizeMismatch {
            return false
        }
    }

    /// Creates a file that never changes. Returns false if it exists with the same bytes; throws if its bytes differ.
    func write(once name: String, _ bytes: [UInt8], refusal: () -> UpdateFailure) throws -> Bool {
        if try create(name, with: .bytes(bytes)) { return true }
        guard try read(name, maximumBytes: max(bytes.count, 1))?.bytes == bytes else { throw refusal() }
        return false
    }

    /// Changes the feed. `work` reads, decides and writes with other publishers locked out, and runs again after a
    /// conflict. Slow steps, such as signing with a token, run first in `draft`, which returns nil if there are none.
    /// It runs again if one of its `channels`, or a hold of one, has changed.
    func change<Draft, Answer>(
        _ wait: FeedWait, channels: [String], draft: () throws -> Draft?, work: (Draft?) throws -> Answer
    ) throws -> Answer {
        for attempt in 0..<Self.attempts {
            let before = try channels.map(inputs)
            let drafted = try draft()
            do {
                let answer: Answer? = try exclusive(wait) {
                    try drafted == nil || channels.map(inputs) == before ? .some(work(drafted)) : nil
                }
                if let answer { return answer }
            } catch is FeedConflict {
                pauseAfter(attempt)
            }
        }
        throw UpdateFailure(
            .storeLocked, subject: "\(address)",
            "Other publishers changed the feed \(address) during \(Self.attempts) attempts. Run the command again when they are done."
        )
    }

    /// Returns the bytes that a draft for `channel` depends on: its file and its hold.
    private func inputs(of channel: String) throws -> [[UInt8]?] {
        [
            try ChannelWriter.record(of: channel, in: self)?.bytes,
            try read(HoldEditor.path(of: channel), maximumBytes: HoldFormat.maximumBytes)?.bytes,
        ]
    }

    private static var attempts: Int { 6 }

    /// Waits for a random time that grows with each attempt, so that two publishers do not collide again.
    private func pauseAfter(_ attempt: Int) {
        usleep(UInt32.random(in: 20_000...(100_000 << UInt32(attempt))))
    }
}
