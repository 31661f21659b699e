/// The canonical tar of a client, which has the same bytes for the same tree on every machine.
///
/// POSIX ustar (IEEE Std 1003.1, pax "ustar Interchange Format"): regular files only, sorted by the bytes of their paths,
/// with mode 0644, time, owner and group 0, without names, and two zero blocks at the end. GNU `tar --format=ustar`
/// writes the same bytes for these values. A long path is split at the last possible slash into a prefix of 155 bytes and
/// a name of 100 bytes. A path that does not fit gets a pax header with one record, `path`.
package enum CanonicalTar {
    /// The size of a block in bytes. Headers have one block, and data is padded to whole blocks.
    package static let blockSize = 512
    /// The end of the archive.
    package static let end = [UInt8](repeating: 0, count: 2 * blockSize)

    /// Returns the number of zero bytes after `size` bytes of data.
    package static func padding(after size: Int) -> Int { (blockSize - size % blockSize) % blockSize }

    /// Appends all headers of a file.
    ///
    /// `path` is relative to the tree, and `size` is below 8 GiB.
    package static func appendHeader(path: some Collection<UInt8>, size: Int, to output: inout [UInt8]) {
        if let (prefix, name) = split(Array(path)) {
            appendBlock(name: name, prefix: prefix, size: size, type: UInt8(ascii: "0"), to: &output)
            return
        }
        let record = paxRecord(path: Array(path))
        appendBlock(
            name: Array("././@PaxHeader".utf8)[...], prefix: [], size: record.count, type: UInt8(ascii: "x"),
            to: &output)
        output += record
        output += [UInt8](repeating: 0, count: padding(after: record.count))
        appendBlock(name: Array(path.prefix(100))[...], prefix: [], size: size, type: UInt8(ascii: "0"), to: &output)
    }

    /// Splits at the longest possible prefix, as GNU tar does. Returns nil if the rest is too long.
    private static func split(_ path: [UInt8]) -> (prefix: ArraySlice<UInt8>, name: ArraySlice<UInt8>)? {
        if path.count <= 100 { return ([], path[...]) }
        guard let slash = path.prefix(156).lastIndex(of: UInt8(ascii: "/")), path.count - slash - 1 <= 100 else {
            return nil
        }
        return (path[..<slash], path[(slash + 1)...])
    }

    /// Returns `length path=value\n`. The length includes its own digits.
    private static func paxRecord(path: [UInt8]) -> [UInt8] {
        let rest = Array(" path=".utf8) + path + [UInt8(ascii: "\n")]
        var length = rest.count
        while String(length).utf8.count + rest.count != length { length = String(length).utf8.count + rest.count }
        return Array(String(length).utf8) + rest
    }

    private static func appendBlock(
        name: ArraySlice<UInt8>, prefix: ArraySlice<UInt8>, size: Int, type: UInt8, to output: inout [UInt8]
    ) {
        let start = output.count
        func field(_ bytes: some Collection<UInt8>, at offset: Int) {
            output.replaceSubrange(start + offset..<start + offset + bytes.count, with: bytes)
        }
        output += end[..<blockSize]
        field(name, at: 0)
        field("0000644".utf8, at: 100)
        field("0000000".utf8, at: 108)
        field("0000000".utf8, at: 116)
        field(octal(size, digits: 11), at: 124)
        field("00000000000".utf8, at: 136)
        field("        ".utf8, at: 148)
        output[start + 156] = type
        field("ustar".utf8, at: 257)
        field("00".utf8, at: 263)
        if type == UInt8(ascii: "0") {
            // GNU tar writes device numbers for files but not for pax headers.
            field("0000000".utf8, at: 329)
            field("0000000".utf8, at: 337)
        }
        field(prefix, at: 345)
        var sum = 0
        for byte in output[start...] { sum += Int(byte) }
        field(octal(sum, digits: 6), at: 148)
        output[start + 154] = 0
    }

    private static func octal(_ value: Int, digits: Int) -> [UInt8] {
        (0..<digits).reversed().map { UInt8(ascii: "0") + UInt8(value >> (3 * $0) & 7) }
    }
}
