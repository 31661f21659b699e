import BundleCore
import BundleDisk
import Glibc
import NIOCore

/// A path below a site's root; its identity is its bytes.
struct FilePath: Hashable, Sendable {
    let bytes: [UInt8]

    func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// The files that were asked for, ready to be sent; a full shelf is emptied.
struct FileShelf {
    static let maximumBytes = 4 << 20
    static let maximumOpenFiles = 32

    private(set) var files: [FilePath: SiteFile] = [:]
    private var bytes = 0
    private var openFiles = 0

    /// Takes a file away that is another one now.
    mutating func drop(_ path: FilePath) {
        guard let file = files.removeValue(forKey: path) else { return }
        bytes -= file.cost
        openFiles -= file.isOpen ? 1 : 0
    }

    mutating func put(_ file: SiteFile, _ path: FilePath) {
        if files[path] != nil { return }
        let isOpen = file.isOpen
        if bytes + file.cost > Self.maximumBytes || isOpen && openFiles == Self.maximumOpenFiles {
            self = FileShelf()
        }
        files[path] = file
        bytes += file.cost
        openFiles += isOpen ? 1 : 0
    }
}

/// The fields of the responses about a file. An object, so that a response holds it by one reference.
final class FileFields: Sendable {
    /// The fields of the whole file, and the empty line.
    let whole: ByteBuffer

    /// `ETag` and `Cache-Control`, as every response about the file has them.
    private let validators: String
    /// What responses with the whole and with a part share.
    private let shared: String
    private let size: Int

    init(type: String, _ description: FileDescription, size: Int) {
        self.size = size
        let tag = String(decoding: description.tag, as: UTF8.self)
        validators = "ETag: \(tag)\r\nCache-Control: \(description.caching)\r\n"
        let sourceMap = description.sourceMap.map { "X-SourceMap: \($0)\r\n" } ?? ""
        shared = "Content-Type: \(type)\r\n\(validators)\(sourceMap)Accept-Ranges: bytes\r\n"
        whole = ByteBuffer(string: "\(shared)Content-Length: \(size)\r\n\r\n")
    }

    /// The fields of the whole behind others.
    func whole(after fields: String) -> ByteBuffer {
        if fields.isEmpty { return whole }
        var head = ByteBuffer(string: fields)
        head.writeImmutableBuffer(whole)
        return head
    }

    /// The fields that say that the file is still the same, behind others.
    func unchanged(after fields: String) -> ByteBuffer { ByteBuffer(string: "\(fields)\(validators)\r\n") }

    /// The fields of a part, behind others.
    func part(_ part: Range<Int>, after fields: String) -> ByteBuffer {
        ByteBuffer(
            string: """
                \(fields)\(shared)Content-Range: bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)\r
                Content-Length: \(part.count)\r\n\r\n
                """)
    }
}

/// What answers say about a file beside its type and size.
struct FileDescription {
    /// The entity tag with its quotes.
    let tag: [UInt8]
    let caching: String
    /// The path of its source map as it stands in a URL.
    let sourceMap: String?

    /// States how long caches keep a file, and its tag.
    init(tag: [UInt8], caching: String = Caching.revalidated, sourceMap: String? = nil) {
        self.tag = tag
        self.caching = caching
        self.sourceMap = sourceMap
    }
}

/// Where a manifest says that a source map is: a URL path, written as people write it, without escapes.
struct SourceMapURL {
    /// The file's path below the site's root.
    let path: [UInt8]

    /// Nil for what is no absolute path. Query and fragment name no other file.
    init?(url: String) {
        guard url.utf8.first == HTTPBytes.slash else { return nil }
        path = Array(url.utf8.dropFirst().prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
    }

    /// The path as it stands in a request, so that nothing in a manifest can end the field or start another.
    var escaped: String {
        let bytes = path.flatMap { byte -> [UInt8] in
            if Self.isPlain(byte) { return [byte] }
            return [UInt8(ascii: "%"), Self.hexDigits[Int(byte >> 4)], Self.hexDigits[Int(byte & 15)]]
        }
        return "/" + String(decoding: bytes, as: UTF8.self)
    }

    private static let hexDigits = Array("0123456789ABCDEF".utf8)

    /// The unreserved bytes of RFC 3986, and the slash between components.
    private static func isPlain(_ byte: UInt8) -> Bool {
        HTTPBytes.isLetter(byte) || HTTPBytes.isDigit(byte) || "/-._~".utf8.contains(byte)
    }
}

/// A descriptor of an open file that several answers may send from at once; closed with its last reference.
final class OpenFile: Sendable {
    let handle: NIOFileHandle

    init(duplicating file: File) throws {
        let descriptor = try file.withDescriptor { descriptor in
            let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            if duplicate < 0 { throw DiskError("open", file.path, code: errno) }
            return duplicate
        }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
    }

    deinit { try? handle.close() }
}

/// What the kernel says about an open file.
struct FileFacts {
    let size: Int
    /// An entity tag, with its quotes, that no other file has: the system sets the time of the last change, so it differs for two
    /// files of one inode, one size and one date.
    let tag: [UInt8]
    /// An entity tag that a copy with the same date has, too, on any disk.
    let portableTag: [UInt8]

    init(of file: File) throws {
        let status = try file.withDescriptor { descriptor in
            var status = stat()
            if fstat(descriptor, &status) < 0 { throw DiskError("examine", file.path, code: errno) }
            return status
        }
        size = Int(status.st_size)
        let date = Self.nanoseconds(status.st_mtim)
        tag = Self.quoted([UInt64(status.st_ino), UInt64(clamping: size), date, Self.nanoseconds(status.st_ctim)])
        portableTag = Self.quoted([UInt64(clamping: size), date])
    }

    private static func nanoseconds(_ time: timespec) -> UInt64 {
        UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
    }

    private static func quoted(_ numbers: [UInt64]) -> [UInt8] {
        Array("\"\(numbers.map { String($0, radix: 16) }.joined(separator: "-"))\"".utf8)
    }
}
