import CLibrary

/// The central directory of a zip (PKWARE APPNOTE 4.3). It must describe the whole file: local headers and data follow
/// each other without gaps in the order of the directory, and the end record is the last 22 bytes.
///
/// libarchive searches for the end record and accepts leading bytes, unlisted entries, a comment, and headers that differ
/// from the directory.
struct ZipDirectory {
    /// The values of an entry in the directory.
    struct ZipEntry {
        private static let encryption: UInt16 = 1 | 1 << 6 | 1 << 13

        fileprivate let flags: UInt16
        fileprivate let method: UInt16

        /// Whether it has traditional or strong encryption, or masked headers.
        var isEncrypted: Bool { flags & Self.encryption != 0 }
        /// Whether it is stored or deflated.
        var isMethodSupported: Bool { method == 0 || method == 8 }
    }

    /// The entries in the order of the file.
    let entries: [ZipEntry]

    /// Reads the directory of the zip in the first `size` bytes of `descriptor`.
    init(descriptor: Int32, size: Int) throws(ArchiveFailure) {
        let file = ZipBytes(size: size, descriptor: descriptor)
        let end = try ZipEndRecord(file)
        var entries: [ZipEntry] = []
        entries.reserveCapacity(end.count)
        var position = end.offset
        var expected = 0
        for _ in 0..<end.count {
            let header = try ZipHeader(central: file, at: position, before: end.offset + end.size)
            position += header.length
            guard header.offset == expected else {
                throw .zipStructure("its files are not in the order of its directory")
            }
            guard !header.name.contains(0) else { throw .zipStructure("a name contains NUL") }
            expected = try Self.end(of: header, in: file, before: end.offset)
            entries.append(ZipEntry(flags: header.flags, method: header.method))
        }
        guard expected == end.offset else { throw .zipStructure("bytes precede its directory") }
        guard position == end.offset + end.size else {
            throw .zipStructure("its directory does not have the stated size")
        }
        self.entries = entries
    }

    /// Returns the end of the entry's data. Throws if its local header differs from the directory.
    private static func end(
        of header: ZipHeader, in file: ZipBytes, before limit: Int
    ) throws(ArchiveFailure) -> Int {
        let local = try ZipHeader(local: file, at: header.offset, before: limit)
        guard local.describesSame(as: header) else {
            throw .zipStructure("a local header contradicts the directory")
        }
        let data = header.offset + local.length
        guard header.packedSize <= limit - data else { throw .zipStructure("a file overlaps the next one") }
        let end = data + header.packedSize
        return header.hasDataDescriptor ? end + (try file.dataDescriptorLength(at: end, of: header)) : end
    }
}

/// The end of central directory record (APPNOTE 4.3.16).
private struct ZipEndRecord {
    static let length = 22
    private static let locatorLength = 20
    private static let zip64 = "it is a zip64, which clients within the limits do not need"

    let count: Int
    let size: Int
    let offset: Int

    init(_ file: ZipBytes) throws(ArchiveFailure) {
        guard file.size >= Self.length else { throw .zipStructure("it is too short for an end record") }
        let record = try file.read(Self.length, at: file.size - Self.length)
        guard record.long(at: 0) == 0x0605_4B50, record.short(at: 20) == 0 else {
            throw .zipStructure("the end record is not at the end of the file")
        }
        guard record.short(at: 4) == 0, record.short(at: 6) == 0, record.short(at: 8) == record.short(at: 10) else {
            throw .zipStructure("it has more than one disk")
        }
        count = record.short(at: 10)
        size = record.long(at: 12)
        offset = record.long(at: 16)
        guard count != 0xFFFF else { throw .zipStructure(Self.zip64) }
        guard try !Self.followsLocator(in: file) else { throw .zipStructure(Self.zip64) }
        guard count > 0 else { throw .zipStructure("it has no entries") }
        guard offset + size + Self.length == file.size else {
            throw .zipStructure("bytes precede, separate or follow its parts")
        }
    }

    /// Whether a zip64 locator (APPNOTE 4.3.15) precedes the end record, even in a comment of the directory. libarchive
    /// follows it and then reads other local headers than the directory names.
    private static func followsLocator(in file: ZipBytes) throws(ArchiveFailure) -> Bool {
        let end = file.size - length
        return end >= locatorLength ? try file.read(4, at: end - locatorLength).long(at: 0) == 0x0706_4B50 : false
    }
}

/// A central (APPNOTE 4.3.12) or local (4.3.7) file header.
private struct ZipHeader {
    /// The length of the header in bytes.
    let length: Int
    let flags: UInt16
    let method: UInt16
    let checksum: Int
    let packedSize: Int
    let unpackedSize: Int
    /// The offset of the local header; 0 in a local header.
    let offset: Int
    let name: [UInt8]

    var hasDataDescriptor: Bool { flags & 1 << 3 != 0 }

    init(central file: ZipBytes, at position: Int, before limit: Int) throws(ArchiveFailure) {
        let fixed = try file.read(46, at: position, before: limit)
        guard fixed.long(at: 0) == 0x0201_4B50 else { throw .zipStructure("its directory is damaged") }
        guard fixed.short(at: 34) == 0 else { throw .zipStructure("a file is on another disk") }
        let (nameLength, extraLength) = (fixed.short(at: 28), fixed.short(at: 30))
        length = 46 + nameLength + extraLength + fixed.short(at: 32)
        let variable = try file.read(length - 46, at: position + 46, before: limit)
        name = Array(variable.bytes[..<nameLength])
        flags = UInt16(fixed.short(at: 8))
        method = UInt16(fixed.short(at: 10))
        checksum = fixed.long(at: 16)
        var large = try ZipLargeNumbers(extra: variable.bytes[nameLength..<nameLength + extraLength])
        unpackedSize = try large.resolve(fixed.long(at: 24))
        packedSize = try large.resolve(fixed.long(at: 20))
        offset = try large.resolve(fixed.long(at: 42))
    }

    init(local file: ZipBytes, at position: Int, before limit: Int) throws(ArchiveFailure) {
        let fixed = try file.read(30, at: position, before: limit)
        guard fixed.long(at: 0) == 0x0403_4B50 else { throw .zipStructure("a file has no local header") }
        let nameLength = fixed.short(at: 26)
        length = 30 + nameLength + fixed.short(at: 28)
        let variable = try file.read(length - 30, at: position + 30, before: limit)
        name = Array(variable.bytes[..<nameLength])
        flags = UInt16(fixed.short(at: 6))
        method = UInt16(fixed.short(at: 8))
        checksum = fixed.long(at: 14)
        var large = try ZipLargeNumbers(extra: variable.bytes[nameLength...])
        unpackedSize = try large.resolve(fixed.long(at: 22))
        packedSize = try large.resolve(fixed.long(at: 18))
        offset = 0
    }

    /// Whether this local header agrees with `central`. It may omit values that a data descriptor repeats.
    func describesSame(as central: ZipHeader) -> Bool {
        guard name == central.name, flags == central.flags, method == central.method else { return false }
        let pairs = [
            (checksum, central.checksum), (packedSize, central.packedSize), (unpackedSize, central.unpackedSize),
        ]
        return pairs.allSatisfy { $0 == $1 || (hasDataDescriptor && $0 == 0) }
    }
}

/// The zip64 extra field of a header (APPNOTE 4.5.3): the numbers that do not fit, in order.
private struct ZipLargeNumbers {
    private var numbers: ArraySlice<UInt8> = []

    init(extra: ArraySlice<UInt8>) throws(ArchiveFailure) {
        var rest = extra
        var isFound = false
        while !rest.isEmpty {
            let field = ZipRecord(bytes: Array(rest.prefix(4)))
            guard field.bytes.count == 4, field.short(at: 2) <= rest.count - 4 else {
                throw .zipStructure("an extra field reaches beyond its header")
            }
            let content = rest.dropFirst(4).prefix(field.short(at: 2))
            if field.short(at: 0) == 1 {
                // libarchive uses the first of two, other programs the last.
                guard !isFound else { throw .zipStructure("a header has two zip64 fields") }
                (numbers, isFound) = (content, true)
            }
            rest = rest[content.endIndex...]
        }
    }

    mutating func resolve(_ number: Int) throws(ArchiveFailure) -> Int {
        guard number == 0xFFFF_FFFF else { return number }
        let field = ZipRecord(bytes: Array(numbers.prefix(8)))
        guard field.bytes.count == 8, field.long(at: 4) == 0 else {
            throw .zipStructure("a number is missing or too large")
        }
        numbers = numbers.dropFirst(8)
        return field.long(at: 0)
    }
}

/// A part of the file with little-endian numbers.
private struct ZipRecord {
    let bytes: [UInt8]

    /// Returns the number of two bytes at `offset`.
    func short(at offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }

    /// Returns the number of four bytes at `offset`.
    func long(at offset: Int) -> Int { short(at: offset) | short(at: offset + 2) << 16 }
}

/// Reads the file at any offset.
private struct ZipBytes {
    let size: Int
    let descriptor: Int32

    /// Reads exactly `count` bytes at `offset`. Throws if they reach `limit`.
    func read(_ count: Int, at offset: Int, before limit: Int? = nil) throws(ArchiveFailure) -> ZipRecord {
        guard offset >= 0, count <= (limit ?? size) - offset else {
            throw .zipStructure("a header is truncated")
        }
        var bytes = [UInt8](repeating: 0, count: count)
        guard pread(descriptor, &bytes, count, off_t(offset)) == count else {
            throw .system(operation: "read", code: errno)
        }
        return ZipRecord(bytes: bytes)
    }

    /// Returns the length of the data descriptor at `offset` (APPNOTE 4.3.9), with or without a signature and with short
    /// or long sizes.
    func dataDescriptorLength(at offset: Int, of header: ZipHeader) throws(ArchiveFailure) -> Int {
        for (hasSignature, width) in [(true, 4), (true, 8), (false, 4), (false, 8)] {
            let start = hasSignature ? 4 : 0
            let length = start + 4 + 2 * width
            guard let record = try? read(length, at: offset) else { continue }
            if (!hasSignature || record.long(at: 0) == 0x0807_4B50), record.long(at: start) == header.checksum,
                record.long(at: start + 4) == header.packedSize,
                record.long(at: start + 4 + width) == header.unpackedSize
            {
                return length
            }
        }
        throw .zipStructure("a data descriptor contradicts the directory")
    }
}
