import BundleValues
import BundleDisk
import BundleTransport
import BundleSigning

/// The journal of an attempt's downloads. It is beside the tree and is only appended to. Only one thread may use it at a
/// time.
final class AssetJournal {
    static let name = "assets.journal"
    /// The folder of partial files.
    static let parts = "parts"

    private let file: File

    /// Opens the journal for appending.
    init(in folder: Directory) throws {
        file = try folder.file(appending: Self.name)
        let size = try file.size()
        try file.truncate(to: size)
        // The last line can be incomplete, so the next one needs a new line.
        if size > 0 { try file.write(Array("\n".utf8)) }
    }

    func append(_ record: JournalRecord) throws { try file.write(Array(record.line.utf8)) }
}

/// A line of the journal: words separated by tabs, with the key last.
enum JournalRecord: Equatable {
    /// A file in the tree is complete.
    case complete(key: JournalText, CompleteAsset)
    /// A partial file is in the folder of parts.
    case part(key: JournalText, AssetPartRecord)

    var line: String {
        switch self {
        case .complete(let key, let asset):
            "complete\t\(asset.receipt.sha256)\t\(asset.receipt.size)\t\(asset.file)\t"
                + "\(JournalText(asset.receipt.evidence).escaped)\t\(key.escaped)\n"
        case .part(let key, let part):
            "part\t\(part.name)\t\(JournalText(part.validator).escaped)\t\(key.escaped)\n"
        }
    }

    /// Returns nil for an incomplete or foreign line.
    init?(parsing line: Substring) {
        let words = line.split(separator: "\t", omittingEmptySubsequences: false)
        switch words.first {
        case "complete" where words.count == 6:
            guard let digest = try? SHA256Digest(parsingHex: String(words[1])), let size = Int(words[2]), size >= 0,
                let file = try? BundlePath(parsing: words[3])
            else { return nil }
            let receipt = DownloadReceipt(
                size: size, sha256: digest, evidence: JournalText(escaped: String(words[4])).plain)
            self = .complete(
                key: JournalText(escaped: String(words[5])), CompleteAsset(file: file, receipt: receipt))
        case "part" where words.count == 4:
            // Accepts a name only, so that no file outside the folder of parts is read.
            guard let name = try? BundlePath(parsing: words[1]), name.parent == nil else { return nil }
            let part = AssetPartRecord(
                name: String(words[1]), validator: JournalText(escaped: String(words[2])).plain)
            self = .part(key: JournalText(escaped: String(words[3])), part)
        default:
            return nil
        }
    }
}

/// The journal entry of a complete file.
struct CompleteAsset: Sendable, Equatable {
    let file: BundlePath
    let receipt: DownloadReceipt
}

/// The journal entry of a partial file.
struct AssetPartRecord: Sendable, Equatable {
    let name: String
    let validator: String
}

/// A text whose control characters and percent signs are percent-encoded.
struct JournalText: Sendable, Hashable {
    let escaped: String

    init(escaped: String) { self.escaped = escaped }

    init(_ plain: String) {
        guard plain.utf8.contains(where: Self.isSpecial) else {
            escaped = plain
            return
        }
        let bytes = plain.utf8.flatMap { Self.isSpecial($0) ? Array(PercentEncoding.encode(path: [$0]).utf8) : [$0] }
        escaped = String(decoding: bytes, as: UTF8.self)
    }

    /// The original text.
    var plain: String { String(decoding: PercentEncoding.decode(Array(escaped.utf8)), as: UTF8.self) }

    private static func isSpecial(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") }
}
