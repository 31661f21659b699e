import BundleArchive
import BundleTesting
import Glibc
import Testing

extension SeededGenerator {
    /// Returns random words, which can be compressed.
    mutating func text(_ count: Int) -> [UInt8] {
        let words = (0..<200).map { "w\($0 * 7919) " }
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += words[Int(next() % 200)].utf8 }
        return Array(bytes[..<count])
    }
}

/// A file of an archive.
struct Item: Equatable {
    let name: String
    let content: [UInt8]

    init(_ name: String, _ content: [UInt8]) {
        self.name = name
        self.content = content
    }

    static let some: [Item] = {
        var seeded = SeededGenerator(seed: 1)
        return [
            Item("assets/main.js", seeded.text(300_000)), Item("empty", []), Item("h\u{E9}llo/\u{1F600}.txt", [0x21]),
            Item("index.html", Array("<title>x</title>".utf8)),
        ]
    }()
}

/// Creates archives with the writers.
enum Written {
    static func tar(_ items: [Item]) -> [UInt8] {
        var bytes: [UInt8] = []
        for item in items {
            CanonicalTar.appendHeader(path: item.name.utf8, size: item.content.count, to: &bytes)
            bytes += item.content
            bytes += [UInt8](repeating: 0, count: CanonicalTar.padding(after: item.content.count))
        }
        return bytes + CanonicalTar.end
    }

    static func archive(_ items: [Item], as format: ArchiveFormat) throws -> [UInt8] {
        switch format {
        case .tar: tar(items)
        case .tarGzip: try gzip(tar(items))
        case .tarZstd: try zstd(tar(items))
        case .zip: try zip(items)
        }
    }

    static func gzip(_ bytes: [UInt8]) throws -> [UInt8] {
        var output: [UInt8] = []
        let writer = try LibraryWriter.gzip(level: 6) { output += $0 }
        try bytes.withUnsafeBytes { try writer.write($0) }
        try writer.finish()
        return output
    }

    static func zstd(
        _ bytes: [UInt8], level: Int = 3, windowLog: Int = 20, workers: Int = 1, pieces: Int = 1 << 20
    ) throws -> [UInt8] {
        var output: [UInt8] = []
        let compressor = try ZstdCompressor(level: level, windowLog: windowLog, workers: workers, size: bytes.count) {
            output += $0
        }
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            try bytes[start..<min(start + pieces, bytes.count)].withUnsafeBytes { try compressor.write($0) }
        }
        try compressor.finish()
        return output
    }

    static func zip(_ items: [Item]) throws -> [UInt8] {
        var output: [UInt8] = []
        let writer = try LibraryWriter.zip(level: 6) { output += $0 }
        for item in items {
            try writer.begin(item.name, size: item.content.count)
            try item.content.withUnsafeBytes { try writer.write($0) }
        }
        try writer.finish()
        return output
    }
}

extension DecodingLimits {
    static var generous: DecodingLimits { DecodingLimits(ratio: 1000, grace: 1 << 30, deadline: .now + .seconds(60)) }
}

enum Reading {
    private static let readsUTF8 = setlocale(LC_CTYPE, "C.UTF-8") != nil

    /// Returns all entries with their data. `size` is the size that the reader gets; `later` replaces the content after
    /// the file is open.
    static func entries(
        of bytes: [UInt8], as format: ArchiveFormat? = nil, limits: DecodingLimits = .generous, size: Int? = nil,
        later: [UInt8]? = nil, mode: Int32 = O_RDWR
    ) throws -> [(entry: ArchiveEntry, content: [UInt8])] {
        try reader(of: bytes, as: format, limits: limits, size: size, later: later, mode: mode) { reader in
            var entries: [(ArchiveEntry, [UInt8])] = []
            while let entry = try reader.nextEntry() {
                var content: [UInt8] = []
                while let block = try reader.nextBlock() { content += block }
                entries.append((entry, content))
            }
            return entries
        }
    }

    /// Returns the first entry without reading its data.
    static func firstEntry(of bytes: [UInt8], later: [UInt8]? = nil) throws -> ArchiveEntry? {
        try reader(of: bytes, later: later) { try $0.nextEntry() }
    }

    private static func reader<Answer>(
        of bytes: [UInt8], as format: ArchiveFormat? = nil, limits: DecodingLimits = .generous, size: Int? = nil,
        later: [UInt8]? = nil, mode: Int32 = O_RDWR, _ body: (ArchiveReader) throws -> Answer
    ) throws -> Answer {
        try #require(readsUTF8)
        let folder = try TemporaryFolder()
        let descriptor = open(try folder.write(bytes, to: "archive"), mode | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let reader = try ArchiveReader(
            descriptor: descriptor, size: size ?? bytes.count, format: format ?? ArchiveFormat(sniffing: bytes),
            limits: limits)
        if let later { try #require(pwrite(descriptor, later, later.count, 0) == later.count) }
        return try body(reader)
    }

    static func items(
        of bytes: [UInt8], as format: ArchiveFormat? = nil, limits: DecodingLimits = .generous
    ) throws -> [Item] {
        try entries(of: bytes, as: format, limits: limits).map { entry, content in
            Item(String(decoding: try #require(entry.name), as: UTF8.self), content)
        }
    }

    /// Returns the failure, or nil if the archive is read without one.
    static func failure(
        of bytes: [UInt8], as format: ArchiveFormat? = nil, limits: DecodingLimits = .generous, size: Int? = nil,
        later: [UInt8]? = nil, mode: Int32 = O_RDWR
    ) throws -> ArchiveFailure? {
        do {
            _ = try entries(of: bytes, as: format, limits: limits, size: size, later: later, mode: mode)
            return nil
        } catch let failure as ArchiveFailure {
            return failure
        }
    }
}
