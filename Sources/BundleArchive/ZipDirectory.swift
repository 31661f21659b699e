import Glibc

/// The end-of-central-directory record of a zip (PKWARE APPNOTE 4.3.16), which must be the file's last 22 bytes.
///
/// libarchive searches for the record and forgives a stub in front, a comment or other bytes behind; here the
/// file is one archive from its first byte to its last.
enum ZipDirectoryEnd {
    private static let length = 22

    static func entryCount(descriptor: Int32, size: Int) throws(ArchiveFailure) -> Int {
        guard size >= length else { throw .zipStructure("too short for an end record") }
        var record = [UInt8](repeating: 0, count: length)
        guard pread(descriptor, &record, length, off_t(size - length)) == length else {
            throw .system(operation: "read", code: errno)
        }
        func number(_ offset: Int, _ bytes: Int) -> Int {
            (0..<bytes).reduce(0) { $0 | Int(record[offset + $1]) << (8 * $1) }
        }
        guard record.starts(with: [0x50, 0x4B, 0x05, 0x06]), number(20, 2) == 0 else {
            throw .zipStructure("the end record is not at the end of the file")
        }
        guard number(4, 2) == 0, number(6, 2) == 0, number(8, 2) == number(10, 2) else {
            throw .zipStructure("more than one disk")
        }
        guard number(10, 2) != 0xFFFF else { throw .zipStructure("zip64, which no client within the limits needs") }
        guard number(16, 4) + number(12, 4) + length == size else {
            throw .zipStructure("bytes between, before or behind its parts")
        }
        return number(10, 2)
    }
}
