/// A zip in which each number can be wrong.
package struct HandmadeZip {
    /// A file. A nil value stands for the correct one.
    package struct File {
        package var name: [UInt8]
        package var content: [UInt8]
        package var flags: UInt16 = 0
        package var method: UInt16 = 0
        package var centralMethod: UInt16?
        package var centralFlags: UInt16?
        package var centralName: [UInt8]?
        package var centralChecksum: UInt32?
        package var centralPackedSize: Int?
        package var centralSignature = 0x0201_4B50
        package var localSignature = 0x0403_4B50
        package var localPackedSize: Int?
        package var disk = 0
        package var offset: Int?
        package var extra: [UInt8] = []
        package var comment: [UInt8] = []
        package var localExtra: [UInt8] = []
        package var descriptor: [UInt8] = []
        package var gapBehind: [UInt8] = []

        /// Creates a stored file.
        package init(_ name: String, _ content: [UInt8]) {
            self.name = Array(name.utf8)
            self.content = content
        }

        /// Creates a stored file.
        package init(_ name: String, _ content: String) { self.init(name, Array(content.utf8)) }

        /// The CRC-32 of the content.
        package var checksum: UInt32 { HandmadeZip.checksum(content) }
    }

    package var files: [File]
    package var inFront: [UInt8] = []
    package var behindFiles: [UInt8] = []
    package var behindDirectory: [UInt8] = []
    package var behindEnd: [UInt8] = []
    package var reversesDirectory = false
    package var extraCount = 0
    package var extraSize = 0
    package var extraOffset = 0
    package var disk = 0
    package var commentLength = 0

    /// Creates a valid zip.
    package init(
        files: [File] = [File("index.html", "<p>text</p>"), File("a.js", "let a = 1"), File("empty", "")]
    ) {
        self.files = files
    }

    package var bytes: [UInt8] {
        var body = inFront
        var entries: [[UInt8]] = []
        for file in files {
            entries.append(central(file, at: body.count))
            body += local(file) + file.content + file.descriptor + file.gapBehind
        }
        body += behindFiles
        let directory = (reversesDirectory ? entries.reversed() : entries).flatMap { $0 }
        let count = number(entries.count + extraCount, 2)
        let end =
            number(0x0605_4B50, 4) + number(disk, 2) + number(0, 2) + count + count
            + number(directory.count + extraSize, 4) + number(body.count + extraOffset, 4) + number(commentLength, 2)
        return body + directory + behindDirectory + end + behindEnd
    }

    /// Returns the local header of a file.
    package func local(_ file: File) -> [UInt8] {
        let isStreamed = file.flags & 8 != 0
        let size = isStreamed ? 0 : file.content.count
        return number(file.localSignature, 4) + number(20, 2) + number(Int(file.flags), 2)
            + number(Int(file.method), 2) + number(0, 4) + number(isStreamed ? 0 : Int(file.checksum), 4)
            + number(file.localPackedSize ?? size, 4) + number(size, 4)
            + number(file.name.count, 2) + number(file.localExtra.count, 2) + file.name + file.localExtra
    }

    private func central(_ file: File, at offset: Int) -> [UInt8] {
        let name = file.centralName ?? file.name
        var entry = number(file.centralSignature, 4) + number(0x0314, 2) + number(20, 2)
        entry += number(Int(file.centralFlags ?? file.flags), 2) + number(Int(file.centralMethod ?? file.method), 2)
        entry += number(0, 4) + number(Int(file.centralChecksum ?? file.checksum), 4)
        entry += number(file.centralPackedSize ?? file.content.count, 4) + number(file.content.count, 4)
        entry += number(name.count, 2) + number(file.extra.count, 2) + number(file.comment.count, 2)
        entry += number(file.disk, 2) + number(0, 2) + number(0o100644 << 16, 4) + number(file.offset ?? offset, 4)
        return entry + name + file.extra + file.comment
    }

    /// Returns `value` in `count` bytes, little-endian.
    package func number(_ value: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    package func field(_ kind: Int, _ content: [UInt8]) -> [UInt8] {
        number(kind, 2) + number(content.count, 2) + content
    }

    package static func checksum(_ bytes: [UInt8]) -> UInt32 {
        ~bytes.reduce(~0) { sum, byte in
            (0..<8).reduce(sum ^ UInt32(byte)) { value, _ in value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
    }
}
