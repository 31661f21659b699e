import BundleCore
package import BundleDisk
import CLibrary
import NIOCore

/// A path below a site's root, compared by its bytes.
package struct FilePath: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    package func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

/// The files that were requested, ready to be sent. A full cache is emptied.
package struct FileCache {
    static let maximumBytes = 4 << 20
    static let maximumOpenFiles = 32

    package private(set) var files: [FilePath: SiteFile] = [:]
    private var bytes = 0
    private var openFiles = 0

    package init() {}

    /// Removes a file that was replaced on the disk.
    package mutating func drop(_ path: FilePath) {
        guard let file = files.removeValue(forKey: path) else { return }
        bytes -= file.cost
        openFiles -= file.isOpen ? 1 : 0
    }

    package mutating func put(_ file: SiteFile, _ path: FilePath) {
        if files[path] != nil { return }
        let isOpen = file.isOpen
        if bytes + file.cost > Self.maximumBytes || isOpen && openFiles == Self.maximumOpenFiles {
            self = FileCache()
        }
        files[path] = file
        bytes += file.cost
        openFiles += isOpen ? 1 : 0
    }
}

/// The response fields of a file. A class, so a response holds one reference.
final class FileFields: Sendable {
    /// The fields of the whole file, and the empty line.
    let whole: ByteBuffer

    /// `ETag` and `Cache-Control`, which every response has.
    private let validators: String
    /// The fields of responses with the whole file or a part of it.
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

    /// Returns `fields` and the fields of the whole file.
    func whole(after fields: String) -> ByteBuffer {
        if fields.isEmpty { return whole }
        var head = ByteBuffer(string: fields)
        head.writeImmutableBuffer(whole)
        return head
    }

    /// Returns `fields` and the fields of an unchanged file.
    func unchanged(after fields: String) -> ByteBuffer { ByteBuffer(string: "\(fields)\(validators)\r\n") }

    /// Returns `fields` and the fields of a part.
    func part(_ part: Range<Int>, after fields: String) -> ByteBuffer {
        ByteBuffer(
            string: """
                \(fields)\(shared)Content-Range: bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)\r
                Content-Length: \(part.count)\r\n\r\n
                """)
    }
}

/// The description of a file in responses, besides its type and size.
package struct FileDescription {
    /// The entity tag with its quotes.
    let tag: [UInt8]
    let caching: String
    /// The path of its source map, encoded as in a URL.
    let sourceMap: String?

    /// Creates a description with an entity tag and a caching rule.
    package init(tag: [UInt8], caching: String = Caching.revalidated, sourceMap: String? = nil) {
        self.tag = tag
        self.caching = caching
        self.sourceMap = sourceMap
    }
}

/// The URL path of a source map in a manifest, without escapes.
struct SourceMapURL {
    /// The file's path below the site's root.
    let path: [UInt8]

    /// Returns nil for a relative URL. The query and the fragment are ignored.
    init?(url: String) {
        guard url.utf8.first == HTTPBytes.slash else { return nil }
        path = Array(url.utf8.dropFirst().prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
    }

    /// The path with percent-encoding, so a manifest cannot end the header field or add another one.
    var escaped: String {
        let bytes = path.flatMap { byte -> [UInt8] in
            if Self.isPlain(byte) { return [byte] }
            return [UInt8(ascii: "%"), Self.hexDigits[Int(byte >> 4)], Self.hexDigits[Int(byte & 15)]]
        }
        return "/" + String(decoding: bytes, as: UTF8.self)
    }

    private static let hexDigits = Array("0123456789ABCDEF".utf8)

    /// Returns true for the unreserved bytes of RFC 3986 and for the slash.
    private static func isPlain(_ byte: UInt8) -> Bool {
        HTTPBytes.isLetter(byte) || HTTPBytes.isDigit(byte) || "/-._~".utf8.contains(byte)
    }
}

/// The descriptor of an open file, shared by several responses, and closed with its last reference.
final class OpenFile: Sendable {
    let handle: NIOFileHandle

    init(duplicating file: File) throws {
        let descriptor = try file.withDescriptor { descriptor in
            let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            if duplicate < 0 { throw DiskError("open", at: file.path, code: errno) }
            return duplicate
        }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
    }

    deinit { try? handle.close() }
}

/// The kernel's metadata of an open file.
package struct FileFacts {
    package let size: Int
    /// An entity tag, with its quotes, that no other file has. It includes the time of the last change, which only
    /// the kernel sets, so it differs between two files with one inode, size and modification time.
    package let tag: [UInt8]
    /// An entity tag that a copy with the same modification time has on any disk.
    package let portableTag: [UInt8]

    package init(of file: File) throws {
        let status = try file.withDescriptor { descriptor in
            var status = stat()
            if fstat(descriptor, &status) < 0 { throw DiskError("examine", at: file.path, code: errno) }
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
