package import BundleDisk
package import BundleSigning
package import BundleValues

/// A receipt: the manifest and all files of an installed client.
///
/// A receipt is JSON with a fixed layout of one line per file, so that content can be found and checked without a
/// JSON parser.
package enum Receipt {
    static let filesOpening = Array(",\"files\":[".utf8)
    static let filesClosing = Array("\n],\"contentSha256\":\"".utf8)
    static let closing = Array("\"}\n".utf8)
    static let linePath = Array("\n{\"path\":\"".utf8)
    static let lineSize = Array("\",\"size\":".utf8)
    static let lineDigest = Array(",\"sha256\":\"".utf8)
    static let lineEnd = Array("\"}".utf8)

    package struct FileRecord: Sendable, Equatable {
        package let path: BundlePath
        package let size: Int
        /// The SHA-256 of its content.
        package let digest: SHA256Digest
    }

    private static let maximumHeadBytes = 1 << 20

    /// Returns the frame, or nil if the receipt is invalid. Throws only if the disk fails.
    static func validFrame(of file: File) throws -> (identity: BundleIdentity, contentSha256: SHA256Digest)? {
        do {
            return try frame(of: file)
        } catch let error as DiskError {
            throw error
        } catch {
            return nil
        }
    }

    /// Returns the members around the list of files: the client's identity and the digest of its content.
    static func frame(of file: File) throws -> (identity: BundleIdentity, contentSha256: SHA256Digest) {
        let reader = try head(of: file)
        let tail = try bytes(of: file, at: try file.size() - tailBytes, count: tailBytes)
        guard tail.starts(with: filesClosing), tail.reversed().starts(with: closing.reversed()),
            let digest = try? SHA256Digest(
                parsingHex: String(decoding: tail.dropFirst(filesClosing.count).dropLast(closing.count), as: UTF8.self))
        else { throw reader.refusal("contentSha256", "is missing") }
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        return (try BundleIdentity(reader), digest)
    }

    /// Returns the client's manifest as the feed had it.
    static func manifest(of file: File) throws -> JSONValue? { try head(of: file).object["manifest"] }

    /// Returns the members before the list of files.
    private static func head(of file: File) throws -> MemberReader {
        var head: [UInt8] = []
        for chunk in stride(from: 0, to: maximumHeadBytes, by: 4096) {
            head += try bytes(of: file, at: chunk, count: 4096)
            guard let end = head.firstIndex(of: UInt8(ascii: "\n")) else { continue }
            return try MemberReader(
                try JSONScanner.parse(
                    head[..<end] + Array("]}".utf8), maximumBytes: maximumHeadBytes,
                    maximumDepth: JSONScanner.defaultDepth + 2), of: "receipt")
        }
        throw MemberReader.Refusal(member: "receipt", problem: "has no list of files")
    }

    private static let tailBytes = filesClosing.count + SHA256Digest.hexDigitCount + closing.count

    private static func bytes(of file: File, at offset: Int, count: Int) throws(DiskError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let got = try bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(DiskError) in try file.read(into: buffer, at: max(0, offset)) }
        }.get()
        return Array(bytes[..<got])
    }

    /// Calls `body` with every line that describes a file, and with its offset in the receipt.
    static func forEachLine(
        of file: File, _ body: (_ line: ArraySlice<UInt8>, _ offset: Int) throws -> Void
    ) throws {
        var carried: [UInt8] = []
        var carriedOffset = 0
        var position = 0
        var chunk = [UInt8](repeating: 0, count: 256 * 1024)
        while true {
            let count = try chunk.withUnsafeMutableBytes { buffer in
                Result { () throws(DiskError) in try file.read(into: buffer, at: position) }
            }.get()
            if count == 0 { break }
            carried += chunk[..<count]
            position += count
            var start = carried.startIndex
            while let end = carried[start...].firstIndex(of: UInt8(ascii: "\n")) {
                if start < end, carried[start] == UInt8(ascii: "{"),
                    carried[start...].starts(with: linePath.dropFirst())
                {
                    try body(carried[start..<end], carriedOffset + start)
                }
                start = end + 1
            }
            carriedOffset += start
            carried.removeFirst(start)
        }
    }

    /// Returns the paths of all files. Throws if a line is invalid.
    static func paths(of file: File) throws -> Set<BundlePath> {
        var paths: Set<BundlePath> = []
        try forEachLine(of: file) { line, _ in
            guard let record = record(line) else {
                throw UpdateFailure(
                    .storeDamaged, subject: file.path,
                    "The receipt \(file.path) has an invalid line. Install the client again.")
            }
            paths.insert(record.path)
        }
        return paths
    }

    /// Parses one line. Returns nil if `ReceiptWriter` cannot have written it.
    static func record(_ line: ArraySlice<UInt8>) -> FileRecord? {
        var line = line
        if line.last == UInt8(ascii: ",") { line.removeLast() }
        // The part behind the path has a fixed form, so the line is parsed from its end; the path may contain any
        // text.
        guard line.starts(with: linePath.dropFirst()), line.reversed().starts(with: lineEnd.reversed()) else {
            return nil
        }
        var rest = line.dropFirst(linePath.count - 1).dropLast(lineEnd.count)
        let hex = rest.suffix(SHA256Digest.hexDigitCount)
        rest = rest.dropLast(hex.count)
        guard rest.reversed().starts(with: lineDigest.reversed()) else { return nil }
        rest = rest.dropLast(lineDigest.count)
        let digits = rest.reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
        let number = rest.suffix(digits)
        rest = rest.dropLast(digits)
        guard rest.reversed().starts(with: lineSize.reversed()) else { return nil }
        rest = rest.dropLast(lineSize.count)
        var path: [UInt8] = []
        path.reserveCapacity(rest.count)
        var isEscaped = false
        for byte in rest {
            let isQuote = byte == UInt8(ascii: "\"")
            if byte == UInt8(ascii: "\\") && !isEscaped {
                isEscaped = true
            } else if isQuote == isEscaped {
                path.append(byte)
                isEscaped = false
            } else {
                return nil
            }
        }
        guard !isEscaped, number.count == 1 || number.first != UInt8(ascii: "0") else { return nil }
        guard let size = Int(String(decoding: number, as: UTF8.self)),
            let digest = try? SHA256Digest(parsingHex: String(decoding: hex, as: UTF8.self)),
            let safe = try? BundlePath(parsing: path)
        else { return nil }
        return FileRecord(path: safe, size: size, digest: digest)
    }
}

/// Writes a receipt while the files arrive:
/// `{"schema", the members of BundleIdentity, "manifest", "files": [{"path", "size", "sha256"}], "contentSha256"}`.
///
/// It has one line per file, in the order of the archive, so neither the writer nor a reader keeps the whole list in
/// memory.
package struct ReceiptWriter: ~Copyable, Sendable {
    private static let bufferBytes = 64 * 1024

    let identity: BundleIdentity
    private let file: File
    private var buffer: [UInt8] = []
    private var isFirst = true
    /// The number of files written.
    package private(set) var fileCount = 0
    /// The sum of their sizes in bytes.
    package private(set) var totalBytes = 0

    init(_ file: File, _ identity: BundleIdentity, manifest: JSONValue) {
        self.file = file
        self.identity = identity
        var object: JSONObject = ["schema": .integer(1)]
        for member in identity.members.members { object[member.name] = member.value }
        object["manifest"] = manifest
        let head = JSONWriter.bytes(of: .object(object))
        buffer = head.dropLast() + Receipt.filesOpening
        buffer.reserveCapacity(Self.bufferBytes + 4096)
    }

    package mutating func append(_ path: BundlePath, size: Int, digest: SHA256Digest) throws(DiskError) {
        if !isFirst { buffer.append(UInt8(ascii: ",")) }
        isFirst = false
        buffer += Receipt.linePath
        for byte in path.bytes {
            // The quotation mark is the only character of a valid path that JSON escapes.
            if byte == UInt8(ascii: "\"") { buffer.append(UInt8(ascii: "\\")) }
            buffer.append(byte)
        }
        buffer += Receipt.lineSize
        buffer += String(size).utf8
        buffer += Receipt.lineDigest
        digest.appendHex(to: &buffer)
        buffer += Receipt.lineEnd
        fileCount += 1
        totalBytes += size
        if buffer.count >= Self.bufferBytes { try flush() }
    }

    /// Ends the list, and makes the file's content durable.
    mutating func finish(contentSha256: SHA256Digest) throws(DiskError) {
        buffer += Receipt.filesClosing
        contentSha256.appendHex(to: &buffer)
        buffer += Receipt.closing
        try flush()
        try file.sync()
    }

    private mutating func flush() throws(DiskError) {
        try buffer.withUnsafeBytes { bytes in
            Result { () throws(DiskError) in try file.write(bytes) }
        }.get()
        buffer.removeAll(keepingCapacity: true)
    }
}
