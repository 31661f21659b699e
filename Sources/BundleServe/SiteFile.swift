import BundleCore
import BundleDisk
import Glibc
import NIOCore

/// A file that is ready to be sent: its bytes, or an open descriptor for larger ones, and the fields that describe it.
final class SiteFile: Sendable {
    enum Content: Sendable {
        case bytes(ByteBuffer)
        case open(OpenFile)
    }

    /// Files of more bytes are sent from the page cache by the kernel.
    static let largestInMemory = 64 << 10

    private static let largestPage = 4 << 20

    static let revalidated = "no-cache"
    private static let immutable = "public, max-age=31536000, immutable"

    let size: Int
    let content: Content
    /// The entity tag with its quotes.
    let tag: [UInt8]
    let isPage: Bool
    /// Source expressions of its own inline scripts, where it is a page.
    let scriptSources: [String]
    /// `ETag` and `Cache-Control`, as every answer about the file has them.
    let validators: [UInt8]
    /// All fields of the whole file and the empty line, followed by the bytes when those are in memory.
    let whole: ByteBuffer
    /// `whole` up to the end of the fields.
    let wholeHead: ByteBuffer
    private let type: String

    init(type: String, tag: [UInt8], caching: String, size: Int, content: Content, scriptSources: [String]) {
        self.type = type
        self.tag = tag
        self.size = size
        self.content = content
        isPage = MediaType.isPage(type)
        self.scriptSources = scriptSources
        validators = Array("ETag: ".utf8) + tag + Array("\r\nCache-Control: \(caching)\r\n".utf8)
        var head = ByteBuffer()
        head.writeString("Content-Type: \(type)\r\n")
        head.writeBytes(validators)
        head.writeString("Accept-Ranges: bytes\r\nContent-Length: \(size)\r\n\r\n")
        wholeHead = head
        if case .bytes(var bytes) = content { head.writeBuffer(&bytes) }
        whole = head
    }

    convenience init(opening path: [UInt8], in root: Directory) throws {
        let file = try root.file(String(decoding: path, as: UTF8.self))
        let status = try file.withDescriptor { descriptor in
            var status = stat()
            if fstat(descriptor, &status) < 0 { throw DiskError("examine", file.path, code: errno) }
            return status
        }
        let size = Int(status.st_size)
        let type = MediaType.of(path)
        var scriptSources: [String] = []
        let content: Content
        if size <= Self.largestInMemory {
            let bytes = try file.readAll(maximumBytes: Self.largestInMemory)
            // A file that is still being written to is none of ours.
            guard bytes.count == size else { throw DiskError("read", file.path, code: EIO) }
            content = .bytes(ByteBuffer(bytes: bytes))
            if MediaType.isPage(type) { scriptSources = try ScriptSource.expressions(for: bytes) }
        } else {
            content = .open(try OpenFile(duplicating: file))
            // A page of more bytes than any has keeps to scripts in files.
            if MediaType.isPage(type) && size <= Self.largestPage {
                scriptSources = try ScriptSource.expressions(for: try file.readAll(maximumBytes: Self.largestPage))
            }
        }
        let stamp = UInt64(clamping: status.st_mtim.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: status.st_mtim.tv_nsec)
        let facts = [UInt64(status.st_ino), UInt64(clamping: size), stamp].map { String($0, radix: 16) }
        self.init(
            type: type, tag: Array("\"\(facts.joined(separator: "-"))\"".utf8),
            caching: Self.carriesHash(RequestPath(path).lastComponent) ? Self.immutable : Self.revalidated,
            size: size, content: content, scriptSources: scriptSources)
    }

    /// What it takes of a shelf's memory.
    var cost: Int { whole.readableBytes + 512 }

    var isOpen: Bool { if case .open = content { true } else { false } }

    /// The fields of a part, and the empty line.
    func partHead(_ part: Range<Int>) -> [UInt8] {
        Array("Content-Type: \(type)\r\n".utf8) + validators
            + Array(
                """
                Accept-Ranges: bytes\r
                Content-Range: bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)\r
                Content-Length: \(part.count)\r\n\r\n
                """.utf8)
    }

    /// Whether a name holds a run of 16 or more hex digits, both letters and digits: what builders put into the names of files
    /// whose content never changes. Numbers alone, such as dates, are not taken for one.
    static func carriesHash(_ name: ArraySlice<UInt8>) -> Bool {
        var run = (length: 0, hasDigit: false, hasLetter: false)
        for byte in name {
            guard HTTPBytes.hexValue(byte) != nil else {
                run = (0, false, false)
                continue
            }
            run.length += 1
            if HTTPBytes.isDigit(byte) { run.hasDigit = true } else { run.hasLetter = true }
            if run.length >= 16 && run.hasDigit && run.hasLetter { return true }
        }
        return false
    }
}
