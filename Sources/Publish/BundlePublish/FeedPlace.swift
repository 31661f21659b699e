import ArchiveSource
package import BundleDisk
import BundleSigning
package import BundleValues
import Glibc

/// Which state of a file was read: another one after anybody has replaced it.
package struct FeedVersion: Hashable, Sendable {
    /// The place's own word for it.
    package let token: String

    /// Wraps the place's own word.
    package init(_ token: String) { self.token = token }
}

/// A file of a feed as it was read.
package struct FeedRecord: Equatable, Sendable {
    /// What is in it.
    package let bytes: [UInt8]
    /// What `replace` takes.
    package let version: FeedVersion

    package init(_ bytes: [UInt8], _ version: FeedVersion) {
        self.bytes = bytes
        self.version = version
    }
}

/// A file of a feed as it is listed.
package struct FeedEntry: Hashable, Sendable {
    /// Its path below the feed.
    package let name: String
    package let size: Int
    /// When it came to the place; nil where that is not known.
    var written: Timestamp?
}

/// What a new file is made of.
package enum FeedContent {
    case bytes([UInt8])
    /// Read as it is written: it may be large.
    case file(File)
}

/// Where a feed is kept: some files are made once and never changed, others are replaced by whoever has read what is there.
///
/// Names are paths below the feed, of letters, digits and `._-+~`, such as `channels/stable.json`. What a reader sees of a file is whole:
/// the old bytes or the new ones. A place belongs to one command.
package protocol FeedPlace: AnyObject {
    /// As it was named, for people.
    var address: String { get }
    /// The folder that it is; nil where it is none.
    var folder: String? { get }
    /// Whether `alone` keeps others out; where it does not, what is read may change at any time.
    var keepsOthersOut: Bool { get }
    /// What is written before anything else is, to learn what the place can do; nil for nothing.
    var probe: FeedWrite? { get }
    /// What readers and caches are told of the file `name`, in order.
    func headers(of name: String) -> [(name: String, value: String)]

    /// The file, refused where it is larger; nil where there is none.
    func read(_ name: String, maximumBytes: Int) throws -> FeedRecord?
    /// Hands over the file's bytes in order; returns false where there is none. Throws `sizeMismatch` if it has more than
    /// `maximumBytes`.
    func stream(_ name: String, maximumBytes: Int, _ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Bool
    /// Makes the file; false where there is one of that name, which is left as it is.
    func create(_ name: String, _ content: FeedContent) throws -> Bool
    /// Puts `bytes` in the place of what was read as `version`, nil where nothing was there; throws `FeedConflict` where something else
    /// is there by now.
    func replace(_ name: String, with bytes: [UInt8], version: FeedVersion?) throws
    /// Removes the file; nothing happens where there is none.
    func remove(_ name: String) throws
    /// Removes the folder `folder`, whose files are removed; nothing happens if a place has no folders.
    func removeFolder(_ folder: String) throws
    /// Removes the release `release`. Whoever is stopped leaves it whole, or without its manifest, which makes it a release.
    func removeRelease(_ release: String) throws
    /// The files below the folder `folder`, the empty one for all, in no order; no drafts.
    func list(_ folder: String) throws -> [FeedEntry]

    /// Whether something has a release's name that is no release: it has no manifest.
    func isIncomplete(_ release: String) throws -> Bool
    /// A release to be filled, below no name that anybody asks for.
    func draft(_ wait: FeedWait) throws -> any ReleaseDraft
    /// Makes the feed where it is missing.
    func make() throws
    /// Refuses a feed that is not there.
    func requireThere() throws
    /// Makes the names in `folder`, and in the feed, durable: "already so" holds after a power cut too, even if whoever wrote them
    /// was stopped before that.
    func settle(_ folder: String) throws
    /// Does `work` while nobody else changes the feed, as far as the place can keep others out. What it cannot is a `FeedConflict`.
    func alone<Answer>(_ wait: FeedWait, _ work: () throws -> Answer) throws -> Answer
}

/// A release that is being put together.
package protocol ReleaseDraft: AnyObject {
    /// Where its archive is made.
    var scratch: Directory { get }
    /// Whether it is in the feed.
    var isCommitted: Bool { get }
    /// Gives the feed the release `name`: the file `archive` of `scratch`, the others of it that are named, in this order, and
    /// `manifest`, which makes it a release, last.
    func commit(_ name: String, archive: String, besides others: [String], manifest: [UInt8]) throws
}

/// How long to wait for others who change the same feed, and whom to tell so.
package struct FeedWait: Sendable {
    /// They take a moment: nobody packs or signs with a command meanwhile.
    package static let standard = Duration.seconds(30)

    let limit: Duration
    let report: @Sendable (String) -> Void

    /// Waits for `limit`; `report` hears when the waiting begins.
    package init(_ limit: Duration = standard, report: @escaping @Sendable (String) -> Void = { _ in }) {
        self.limit = limit
        self.report = report
    }
}

/// Somebody else made, replaced or removed what was to be replaced. Whoever has read it reads it again, and judges again.
package struct FeedConflict: ClassifiedFailure, Equatable {
    /// The file.
    package let name: String
    private let address: String

    package init(_ name: String, in place: any FeedPlace) {
        self.name = name
        address = place.address
    }

    package var failure: UpdateFailure {
        UpdateFailure(
            .storeLocked, subject: "\(address)/\(name)",
            "Somebody else changed \(name) of the feed \(address) meanwhile, so it was left as it is: run it again.")
    }
}

extension FeedPlace {
    package var probe: FeedWrite? { nil }
    package func removeFolder(_ folder: String) throws {}
    package func headers(of name: String) -> [(name: String, value: String)] { [] }

    /// Whether no device can follow the feed yet: it has no document and no release.
    package var isNew: Bool {
        get throws {
            for name in [ReleaseFeed.manifestName, FeedTrust.fileName] {
                if try read(name, maximumBytes: Self.largestDocument) != nil { return false }
            }
            return try list(ChannelDesk.folder).isEmpty && list(ReleaseFeed.releasesName).isEmpty
        }
    }

    /// The warning about a feed that is new: its address may be misspelled.
    package var isNewWarning: String {
        "\(address) was not a feed before, so no device follows it yet. Check the address if devices have one already."
    }

    private static var largestDocument: Int { max(ManifestFormat.maximumBytes, TrustRootFormat.maximumBytes) }

    /// Returns the SHA-256 of a file; nil where there is none. Throws `sizeMismatch` if it has more than `maximumBytes`.
    func digest(of name: String, maximumBytes: Int) throws -> SHA256Digest? {
        var hasher = try SHA256Hasher()
        guard try stream(name, maximumBytes: maximumBytes, { try hasher.update($0) }) else { return nil }
        return try hasher.finish()
    }

    /// Whether a file has at most `size` bytes and that digest; nil where there is none.
    func holds(_ name: String, _ digest: SHA256Digest, size: Int) throws -> Bool? {
        do {
            return try self.digest(of: name, maximumBytes: size).map { $0 == digest }
        } catch  where UpdateFailure(error).code == .sizeMismatch {
            return false
        }
    }

    /// Makes a file that is written once; false where it is there already. Refuses one that is there with other bytes.
    func write(once name: String, _ bytes: [UInt8], refusal: () -> UpdateFailure) throws -> Bool {
        if try create(name, .bytes(bytes)) { return true }
        guard try read(name, maximumBytes: max(bytes.count, 1))?.bytes == bytes else { throw refusal() }
        return false
    }

    /// Changes the feed: `work` looks, decides and writes while others are kept out, and again where one of them came between a look and
    /// the writing. What may take long, as a token that wants to be touched, is drafted before (nil where it does not), and anew where one
    /// of the `channels` that it is made of, or a hold of one, changed meanwhile.
    func change<Draft, Answer>(
        _ wait: FeedWait, channels: [String], draft: () throws -> Draft?, _ work: (Draft?) throws -> Answer
    ) throws -> Answer {
        for attempt in 0..<Self.attempts {
            let before = try channels.map(said)
            let drafted = try draft()
            do {
                let answer: Answer? = try alone(wait) {
                    try drafted == nil || channels.map(said) == before ? .some(work(drafted)) : nil
                }
                if let answer { return answer }
            } catch is FeedConflict {
                pauseAfter(attempt)
            }
        }
        throw UpdateFailure(
            .storeLocked, subject: address,
            "Others changed the feed \(address) \(Self.attempts) times meanwhile: run it again when they are done.")
    }

    /// What a draft for `channel` is made of: its document, and what a guard holds.
    private func said(of channel: String) throws -> [[UInt8]?] {
        [
            try ChannelDesk.record(of: channel, in: self)?.bytes,
            try read(HoldDesk.path(of: channel), maximumBytes: HoldFormat.maximumBytes)?.bytes,
        ]
    }

    private static var attempts: Int { 6 }

    /// Those who met once must not meet again: each waits another time, and longer each time.
    private func pauseAfter(_ attempt: Int) {
        usleep(UInt32.random(in: 20_000...(100_000 << UInt32(attempt))))
    }
}
