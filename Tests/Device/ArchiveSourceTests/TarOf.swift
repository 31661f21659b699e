import BundleArchive
import BundleDisk
import BundleTesting
import BundleSigning
import Glibc
import Testing

@testable import BundleFormats
@testable import ArchiveSource

/// A file or folder of a tar. Names are not checked; a name that ends in a slash is a folder.
struct TarItem: Sendable {
    let name: String
    let content: [UInt8]

    init(_ name: String, _ content: [UInt8] = []) {
        self.name = name
        self.content = content
    }

    static let index = TarItem("index.html", Array("<title>x</title>".utf8))
}

enum TarOf {
    static func bytes(_ items: [TarItem]) -> [UInt8] {
        var tar: [UInt8] = []
        for item in items {
            let start = tar.count
            CanonicalTar.appendHeader(path: item.name.utf8, size: item.content.count, to: &tar)
            if item.name.hasSuffix("/") { makeFolder(&tar[start..<start + 512]) }
            tar += item.content
            tar += [UInt8](repeating: 0, count: CanonicalTar.padding(after: item.content.count))
        }
        return tar + CanonicalTar.end
    }

    private static func makeFolder(_ header: inout ArraySlice<UInt8>) {
        let start = header.startIndex
        header[start + 156] = UInt8(ascii: "5")
        // The type '5' instead of '0' increases the checksum by five.
        let sum = Int(String(decoding: header[start + 148..<start + 154], as: UTF8.self), radix: 8) ?? 0
        let digits = String(sum + 5, radix: 8)
        header.replaceSubrange(
            start + 148..<start + 154, with: (String(repeating: "0", count: 6 - digits.utf8.count) + digits).utf8)
    }

    /// Returns the rule that refuses a tar of `index.html` and `items`; nil if it is accepted.
    static func rule(
        _ items: [TarItem], limits: ArchiveLimits = ArchiveLimits(), compressed: Bool = false
    ) throws -> String? {
        let tar = bytes([.index] + items)
        if !compressed { return try Refused.rejection(of: tar, limits: limits)?.rule }
        var archive: [UInt8] = []
        let compressor = try ZstdCompressor(level: 3, windowLog: 20, workers: 1, size: tar.count) { archive += $0 }
        try tar.withUnsafeBytes { try compressor.write($0) }
        try compressor.finish()
        return try Refused.rejection(of: archive, limits: limits)?.rule
    }
}

enum Refused {
    /// Returns why an installation refuses an archive; nil if it accepts it.
    static func rejection(
        of archive: [UInt8], limits: ArchiveLimits = ArchiveLimits()
    ) throws -> ArchiveRejection? {
        try #require(setlocale(LC_CTYPE, "C.UTF-8") != nil)
        let temporary = try TemporaryDirectory.ofTests()
        let file = try temporary.directory.file(creating: "archive")
        try archive.withUnsafeBytes { try file.write($0) }
        do {
            try ArchiveVerifier.walk(file, limits: limits)
            return nil
        } catch let rejection as ArchiveRejection {
            return rejection
        }
    }
}

extension Device {
    /// Writes a tar of `index.html` and `items`, and returns its path.
    func tar(_ items: [TarItem]) throws -> String {
        let name = randomName("archive-")
        try TarOf.bytes([.index] + items).withUnsafeBytes { try folder.createFile(name, with: $0) }
        return "\(folder.path)/\(name)"
    }
}
