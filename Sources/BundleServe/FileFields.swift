import NIOCore

/// The fields of the responses about a file, with one of its values of `Cache-Control`. An object, so that a response holds it by
/// one reference.
final class FileFields: Sendable {
    /// The fields of the whole file, and the empty line.
    let whole: ByteBuffer

    /// `ETag` and `Cache-Control`, as every response about the file has them.
    private let validators: String
    /// What responses with the whole and with a part share.
    private let shared: String
    private let size: Int

    init(type: String, _ description: FileDescription, caching: String, size: Int) {
        self.size = size
        let tag = String(decoding: description.tag, as: UTF8.self)
        validators = "ETag: \(tag)\r\nCache-Control: \(caching)\r\n"
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
