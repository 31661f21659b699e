package import BundleValues
package import BundleDisk
package import BundleSigning

/// Writes a receipt as its files arrive:
/// `{"schema", the members of BundleIdentity, "manifest", "files": [{"path", "size", "sha256"}], "contentSha256"}`.
///
/// One line a file, in the order of the archive, so that neither writing nor reading needs the whole list in memory.
package struct ReceiptWriter: ~Copyable, Sendable {
    private static let bufferBytes = 64 * 1024

    let identity: BundleIdentity
    private let file: File
    private var buffer: [UInt8] = []
    private var isFirst = true
    /// Files written so far.
    package private(set) var fileCount = 0
    /// Sum of their sizes in bytes.
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

    /// Adds a file.
    package mutating func append(_ path: BundlePath, size: Int, digest: SHA256Digest) throws(DiskError) {
        if !isFirst { buffer.append(UInt8(ascii: ",")) }
        isFirst = false
        buffer += Receipt.linePath
        for byte in path.bytes {
            // The only character of a legal path that JSON escapes.
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

    /// Ends the list and makes the file's bytes durable.
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
