import NIOCore

/// The fields of the answers about a file, with one of its values of `Cache-Control`. An object, so that an answer holds it by
/// one reference.
final class FileFields: Sendable {
    /// `ETag` and `Cache-Control`, as every answer about the file has them.
    let validators: [UInt8]
    /// All fields of the whole file and the empty line, followed by the bytes when those are in memory.
    let whole: ByteBuffer
    /// `whole` up to the end of the fields.
    let wholeHead: ByteBuffer

    /// What answers with the whole and with a part share.
    private let shared: [UInt8]
    private let size: Int

    init(type: String, _ description: FileDescription, caching: String, size: Int, content: SiteFile.Content) {
        self.size = size
        validators = Array("ETag: ".utf8) + description.tag + Array("\r\nCache-Control: \(caching)\r\n".utf8)
        let sourceMap = description.sourceMap.map { "X-SourceMap: \($0)\r\n" } ?? ""
        shared =
            Array("Content-Type: \(type)\r\n".utf8) + validators
            + Array("\(sourceMap)Accept-Ranges: bytes\r\n".utf8)
        var head = ByteBuffer(bytes: shared)
        head.writeString("Content-Length: \(size)\r\n\r\n")
        wholeHead = head
        if case .bytes(var bytes) = content { head.writeBuffer(&bytes) }
        whole = head
    }

    /// The fields of a part, and the empty line.
    func partHead(_ part: Range<Int>) -> [UInt8] {
        shared
            + Array(
                """
                Content-Range: bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)\r
                Content-Length: \(part.count)\r\n\r\n
                """.utf8)
    }
}
