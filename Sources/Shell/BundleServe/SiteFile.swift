import BundleCore
package import BundleDisk
import BundleSigning
import CLibrary
import NIOCore

/// A file that is ready to be sent: its bytes, or an open descriptor for a larger file, and the fields that describe
/// it.
package final class SiteFile: Sendable {
    enum FileContent: Sendable {
        case bytes(ByteBuffer)
        case open(OpenFile)
    }

    /// The size of the largest file in memory. The kernel sends larger files from its page cache.
    static let largestInMemory = 64 << 10

    private static let largestFrame = 4 << 20

    private let size: Int
    private let content: FileContent
    /// The entity tag with its quotes.
    package let tag: [UInt8]
    /// Identifies the file on the disk that this one was read from.
    package let origin: [UInt8]
    private let type: String
    /// Whether the file starts with a byte order mark of UTF-16.
    private let isWide: Bool
    var isPage: Bool { MediaType.isPage(type) }
    /// The source expressions of the inline scripts of a page.
    let scriptSources: [String]
    private let fields: FileFields
    /// How its build tool has compressed the file, and the fields and the tag of that response; nil for a file that is sent as it is.
    private let coded: (file: CompressedFile, fields: FileFields, tag: [UInt8])?

    init(
        type: String, _ description: FileDescription, size: Int, content: FileContent, scriptSources: [String],
        isWide: Bool = false, origin: [UInt8]? = nil, compressed: CompressedFile? = nil
    ) {
        tag = description.tag
        self.size = size
        self.content = content
        self.origin = origin ?? description.tag
        self.type = type
        self.isWide = isWide
        self.scriptSources = scriptSources
        fields = FileFields(type: type, description, size: size)
        coded = compressed.map { file in
            let tag = file.tag(description.tag)
            let fields = FileFields(
                type: file.type, FileDescription(tag: tag, caching: description.caching), size: size)
            return (file, fields, tag)
        }
    }

    /// Describes an open file of a client by its `label` and its source map. `isThere` tells whether the client has a file.
    convenience init(
        _ file: File, at path: [UInt8], label: AssetLabels.Label?, sourceMap: String?, isThere: ([UInt8]) -> Bool
    ) throws {
        let facts = try FileFacts(of: file)
        let description = FileDescription(tag: try Self.tag(of: file, facts, label), sourceMap: sourceMap)
        let compressed = CompressedFile(path, head: try file.head(4), isThere: isThere)
        try self.init(file, facts, type: MediaType.of(path), description, compressed)
    }

    /// Returns a strong tag from the digest of the content, which is computed for a file in memory and read from the
    /// receipt for a larger one. Without a digest, the tag comes from the kernel's metadata.
    ///
    /// The hash of an asset manifest precedes it, as METEOR section 6 requires. It is the publisher's claim, so two
    /// releases may state one hash for different bytes.
    private static func tag(of file: File, _ facts: FileFacts, _ label: AssetLabels.Label?) throws -> [UInt8] {
        var tag = facts.tag
        if facts.size <= largestInMemory {
            tag = try Site.tag(of: [try file.readAll(maximumBytes: largestInMemory)])
        } else if let digest = label?.digest {
            tag = Site.tag(of: digest)
        }
        guard let hash = label?.hash.flatMap(EntityTag.quoting) else { return tag }
        return hash.dropLast() + [UInt8(ascii: "-")] + tag.dropFirst()
    }

    /// Describes an open file, whose `facts` the caller has read.
    package convenience init(
        _ file: File, _ facts: FileFacts, type: String, _ description: FileDescription
    ) throws {
        try self.init(file, facts, type: type, description, nil)
    }

    private convenience init(
        _ file: File, _ facts: FileFacts, type: String, _ description: FileDescription, _ compressed: CompressedFile?
    ) throws {
        let size = facts.size
        var page: [UInt8]?
        let content: FileContent
        if size <= Self.largestInMemory {
            let bytes = try file.readAll(maximumBytes: Self.largestInMemory)
            // A file that is still being written is not part of a client.
            guard bytes.count == size else { throw DiskError("read", at: file.path, code: EIO) }
            content = .bytes(ByteBuffer(bytes: bytes))
            if MediaType.isPage(type) { page = bytes }
        } else {
            content = .open(try OpenFile(duplicating: file))
            // A frame of more bytes can use scripts in files only.
            if MediaType.isPage(type) {
                page = size <= Self.largestFrame ? try file.readAll(maximumBytes: size) : try file.head(2)
            }
        }
        let isWide = page.map { $0.starts(with: [0xFE, 0xFF]) || $0.starts(with: [0xFF, 0xFE]) } ?? false
        let isHTML = MediaType.isHTML(type)
        self.init(
            type: isHTML ? MediaType.html(in: page.flatMap { HTMLOutline($0).charset }) : type, description,
            size: size, content: content,
            scriptSources: try page.map { try ScriptSource.expressions(for: $0) } ?? [], isWide: isWide,
            origin: facts.tag, compressed: compressed)
    }

    /// The memory that the file occupies in a cache.
    var cost: Int {
        (isOpen ? 0 : size) + fields.whole.readableBytes + 512
    }

    /// Whether scripts of the host can be inserted. XHTML would parse them as elements, and UTF-16 as other
    /// characters.
    var isBridged: Bool { MediaType.isHTML(type) && !isWide }

    var isOpen: Bool { if case .open = content { true } else { false } }

    // MARK: Responses

    /// The coding that the browser would have to accept for this request, and does not; nil if there is none.
    func refusedCoding(of request: Request) -> CompressedFile.Coding? {
        coded.flatMap { $0.file.isDecoded(for: request) && !$0.file.isAccepted(by: request) ? $0.file.coding : nil }
    }

    /// Returns the response to a request for the file. `extra` are further fields.
    package func response(to request: Request, fields extra: String = "") -> Response {
        guard let coded, coded.file.isDecoded(for: request), coded.file.isAccepted(by: request) else {
            return response(to: request, fields, tag, extra)
        }
        // A part of the compressed bytes is useless to a page.
        return response(to: request, coded.fields, coded.tag, extra + coded.file.fields, isWhole: true)
    }

    private func response(
        to request: Request, _ fields: FileFields, _ tag: [UInt8], _ extra: String, isWhole: Bool = false
    ) -> Response {
        if request.with(.ifMatch, { !EntityTag.isMatched(tag, by: $0) }) ?? false {
            return .refusal(.preconditionFailed)
        }
        if request.with(.ifNoneMatch, { EntityTag.isNamed(tag, in: $0) }) ?? false {
            return Response(.notModified, fields: fields.unchanged(after: extra))
        }
        switch isWhole ? .whole : range(for: request) {
        case .whole: return Response(.ok, fields: fields.whole(after: extra), body(0..<size))
        case .part(let part):
            return Response(.partialContent, fields: fields.part(part, after: extra), body(part))
        case .unsatisfiable: return .refusal(.rangeNotSatisfiable, fields: "Content-Range: bytes */\(size)\r\n")
        }
    }

    private func range(for request: Request) -> ByteRange {
        // A HEAD ignores ranges. A date or a weak tag never matches, so the whole file is sent.
        guard !request.isHead, request.with(.ifRange, { $0.elementsEqual(tag) }) ?? true else { return .whole }
        return request.with(.range) { ByteRange(parsing: $0, size: size) } ?? .whole
    }

    private func body(_ part: Range<Int>) -> Response.Body {
        switch content {
        case .bytes(let bytes):
            .bytes(bytes.getSlice(at: bytes.readerIndex + part.lowerBound, length: part.count) ?? bytes)
        case .open(let file): .file(file, part)
        }
    }
}
