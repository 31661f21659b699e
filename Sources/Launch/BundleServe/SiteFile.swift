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

    private let size: Int
    private let content: Content
    /// The entity tag with its quotes.
    let tag: [UInt8]
    let isPage: Bool
    /// Source expressions of its own inline scripts, where it is a page.
    let scriptSources: [String]
    private let fields: FileFields
    private let fieldsWithQuery: FileFields?

    init(type: String, _ description: FileDescription, size: Int, content: Content, scriptSources: [String]) {
        tag = description.tag
        self.size = size
        self.content = content
        isPage = MediaType.isPage(type)
        self.scriptSources = scriptSources
        func makeFields(_ caching: String) -> FileFields {
            FileFields(type: type, description, caching: caching, size: size)
        }
        fields = makeFields(description.caching)
        fieldsWithQuery = description.cachingWithQuery.map(makeFields)
    }

    /// `label` and `sourceMap` are what is known about the file beside what it holds.
    convenience init(
        opening path: [UInt8], in root: Directory, label: AssetLabels.Label?, sourceMap: String?
    ) throws {
        let file = try root.file(String(decoding: path, as: UTF8.self))
        let facts = try FileFacts(of: file)
        let description = FileDescription(path, label: label, ownTag: facts.tag, sourceMap: sourceMap)
        try self.init(file, facts, type: MediaType.of(path), description)
    }

    /// A file that was opened, and is what `facts` say.
    convenience init(_ file: File, _ facts: FileFacts, type: String, _ description: FileDescription) throws {
        let size = facts.size
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
        self.init(type: type, description, size: size, content: content, scriptSources: scriptSources)
    }

    /// What it takes of a shelf's memory.
    var cost: Int {
        (isOpen ? 0 : size) + fields.whole.readableBytes + (fieldsWithQuery?.whole.readableBytes ?? 0) + 512
    }

    var isOpen: Bool { if case .open = content { true } else { false } }

    // MARK: Responses

    /// The response to a request for the file; `extra` are fields that its server knows about it.
    func response(to request: Request, fields extra: String = "") -> Response {
        let fields = fields(for: request)
        if request.with(.ifNoneMatch, { EntityTag.isNamed(tag, in: $0) }) ?? false {
            return Response(.notModified, fields: fields.unchanged(after: extra))
        }
        switch range(for: request) {
        case .whole: return Response(.ok, fields: fields.whole(after: extra), body(0..<size))
        case .part(let part):
            return Response(.partialContent, fields: fields.part(part, after: extra), body(part))
        case .unsatisfiable: return .refusal(.rangeNotSatisfiable, fields: "Content-Range: bytes */\(size)\r\n")
        }
    }

    /// The fields for one request: those of a URL with a query may be others.
    private func fields(for request: Request) -> FileFields {
        guard let fieldsWithQuery, request.hasQuery else { return fields }
        return fieldsWithQuery
    }

    private func range(for request: Request) -> ByteRange {
        // HEAD knows no ranges. A date, or a weak tag, never equals ours: the whole then.
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
