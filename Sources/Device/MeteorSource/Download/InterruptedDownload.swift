import BundleValues
import BundleDisk
import BundleTransport

/// The files of an attempt that did not complete: complete ones in its tree, and partial ones.
struct InterruptedDownload: Sendable {
    /// The largest journal in bytes.
    private static let maximumJournalBytes = 16 << 20

    private let tree: Directory?
    private let parts: Directory?
    private var complete: [JournalText: CompleteAsset] = [:]
    private var unfinished: [JournalText: AssetPartRecord] = [:]

    /// Reads the journal in the attempt's `folder`; `tree` is the name of its tree. Without a journal there are no files.
    init(reading folder: Directory, tree name: String) throws {
        let bytes = try Self.journal(in: folder)
        tree = try folder.directory(ifPresent: name)
        parts = try folder.directory(ifPresent: AssetJournal.parts)
        // The text after the last line feed is incomplete.
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            if let line = String(validating: rest[..<end], as: UTF8.self) { add(JournalRecord(parsing: line[...])) }
            rest = rest[(end + 1)...]
        }
    }

    private static func journal(in folder: Directory) throws(DiskError) -> [UInt8] {
        do {
            return try folder.contents(AssetJournal.name, maximumBytes: maximumJournalBytes) ?? []
        } catch  where error.kind == .unsuitable {
            return []
        }
    }

    private mutating func add(_ record: JournalRecord?) {
        switch record {
        case .complete(let key, let asset):
            complete[key] = asset
            unfinished[key] = nil
        case .part(let key, let part): unfinished[key] = part
        case nil: break
        }
    }

    /// The keys of the files that the journal lists as complete.
    var keys: [String] { complete.keys.map(\.plain) }

    /// Returns the complete file of `key` after hashing it again, or nil if it is missing or its content changed.
    func verified(key: String) throws -> VerifiedAsset? {
        guard let tree, let asset = complete[JournalText(key)] else { return nil }
        let receipt = asset.receipt
        guard let file = try tree.file(ifPresent: asset.file.string), try file.size() == receipt.size,
            try file.sha256() == receipt.sha256
        else { return nil }
        return VerifiedAsset(tree: tree, file: asset.file, receipt: receipt)
    }

    /// Returns the partial file of `key`, or nil if there is none that can be resumed.
    func unfinished(key: String) throws(DiskError) -> UnfinishedAsset? {
        guard let parts, let record = unfinished[JournalText(key)],
            case .file(let size)? = try parts.kind(of: record.name),
            FetchRequest.Resume(offset: size, validator: record.validator) != nil
        else { return nil }
        return UnfinishedAsset(folder: parts, name: record.name, size: size, validator: record.validator)
    }
}

/// A verified file of an earlier attempt, to link.
struct VerifiedAsset: Sendable {
    let tree: Directory
    /// The path in the tree.
    let file: BundlePath
    /// The size, digest and evidence of its download.
    let receipt: DownloadReceipt
}

/// A partial file of an earlier attempt.
struct UnfinishedAsset: Sendable {
    let folder: Directory
    let name: String
    let size: Int
    let validator: String
}
