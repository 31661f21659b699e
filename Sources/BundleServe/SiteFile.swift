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

    let size: Int
    let content: Content
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
            FileFields(type: type, description, caching: caching, size: size, content: content)
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

    /// The fields for one request: those of a URL with a query may be others.
    func fields(for request: Request) -> FileFields {
        guard let fieldsWithQuery, request.hasQuery else { return fields }
        return fieldsWithQuery
    }

    /// What it takes of a shelf's memory.
    var cost: Int { fields.whole.readableBytes + (fieldsWithQuery?.whole.readableBytes ?? 0) + 512 }

    var isOpen: Bool { if case .open = content { true } else { false } }
}
