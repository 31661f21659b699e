import BundleValues
import BundleDisk
import BundleDownload
import BundleSigning

/// The journal of one attempt's downloads, which lies beside its tree and only grows. Used by one thread at a time.
final class AssetJournal {
    /// Its name in the attempt's folder.
    static let name = "assets.journal"
    /// The folder of unfinished files beside it.
    static let parts = "parts"

    private let file: File

    /// Opens it for adding lines.
    init(in folder: Directory) throws {
        file = try folder.file(appending: Self.name)
        let size = try file.size()
        try file.truncate(to: size)
        // The last line may be torn; the next one must not become a part of it.
        if size > 0 { try write("\n") }
    }

    func append(_ record: JournalRecord) throws { try write(record.line) }

    private func write(_ text: String) throws {
        var text = text
        try text.withUTF8 { bytes in
            Result { () throws(DiskError) in try file.write(UnsafeRawBufferPointer(bytes)) }
        }.get()
    }
}

/// One line of a download's journal: words with a tab between them, the key last.
enum JournalRecord: Equatable {
    /// A file is complete at its place in the tree.
    case complete(key: JournalText, CompleteAsset)
    /// A part of a file grows in the folder of parts.
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

    /// Nil for a line that is torn or otherwise not ours.
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
            // A name, not a path: nothing outside the folder of parts is looked at.
            guard let name = try? BundlePath(parsing: words[1]), name.parent == nil else { return nil }
            let part = AssetPartRecord(
                name: String(words[1]), validator: JournalText(escaped: String(words[2])).plain)
            self = .part(key: JournalText(escaped: String(words[3])), part)
        default:
            return nil
        }
    }
}

/// A complete file, as the journal has it.
struct CompleteAsset: Sendable, Equatable {
    let file: BundlePath
    let receipt: DownloadReceipt
}

/// A part of a file, as the journal has it.
struct AssetPartRecord: Sendable, Equatable {
    let name: String
    let validator: String
}

/// Any text in a form without control characters: those, and the percent sign, are percent-encoded.
struct JournalText: Sendable, Hashable {
    let escaped: String

    init(escaped: String) { self.escaped = escaped }

    init(_ plain: String) {
        guard plain.utf8.contains(where: Self.isSpecial) else {
            escaped = plain
            return
        }
        var bytes: [UInt8] = []
        for byte in plain.utf8 {
            if Self.isSpecial(byte) {
                let digits = String(byte, radix: 16)
                bytes += Array((digits.count == 1 ? "%0" : "%").utf8) + Array(digits.utf8)
            } else {
                bytes.append(byte)
            }
        }
        escaped = String(decoding: bytes, as: UTF8.self)
    }

    /// The text again.
    var plain: String {
        guard escaped.utf8.contains(UInt8(ascii: "%")) else { return escaped }
        var bytes: [UInt8] = []
        var rest = Array(escaped.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2,
                let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isSpecial(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") }
}
