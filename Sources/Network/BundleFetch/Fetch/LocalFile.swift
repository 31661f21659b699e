import BundleValues

internal import CLibrary

/// Serves a request for a file URL.
struct LocalFile {
    private let request: FetchRequest
    private var url: FetchURL { request.url }

    private static let chunkSize = 256 * 1024

    init(_ request: FetchRequest) {
        self.request = request
    }

    /// Reads the file up to its size when it was opened.
    func read<Sink: FetchSink & ~Copyable>(into sink: inout Sink) async throws -> FetchHead {
        let file = try OpenLocalFile(url)
        let head = try head(of: file)
        let start = head.rangeStart ?? 0
        try sink.begin(head)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.chunkSize, alignment: 16)
        defer { buffer.deallocate() }
        var offset = start
        while offset < file.size {
            try Task.checkCancellation()
            let wanted = min(Self.chunkSize, file.size - offset)
            let count = try file.read(UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]), at: offset)
            guard count > 0 else {
                throw FetchError.unreachable(url, reason: "the file became shorter while it was read")
            }
            try sink.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
            await Task.yield()
        }
        return head
    }

    /// Applies the rules of HTTP: sends the rest only if the validator matches or is absent, and not from beyond the
    /// end.
    private func head(of file: borrowing OpenLocalFile) throws(FetchError) -> FetchHead {
        guard file.size <= request.maximumBytes else { throw .tooLarge(limit: request.maximumBytes, url) }
        var head = FetchHead(status: 200, effectiveURL: url, contentLength: file.size, entityTag: file.entityTag)
        guard let resume = request.resume, resume.validator.map({ $0 == file.entityTag }) ?? true else { return head }
        guard resume.offset < file.size else { throw .httpStatus(416, url, retryAfter: nil) }
        head.status = 206
        head.rangeStart = resume.offset
        head.contentLength = file.size - resume.offset
        return head
    }
}

/// An open regular file.
private struct OpenLocalFile: ~Copyable, Sendable {
    let size: Int
    let entityTag: String
    private let descriptor: Int32
    private let url: FetchURL

    init(_ url: FetchURL) throws(FetchError) {
        let path = (url.filePath ?? []).map { CChar(bitPattern: $0) } + [0]
        // Does not block, so that a FIFO is refused at once.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.refusal(url, errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw .unreachable(url, reason: "it is not a regular file")
        }
        self.descriptor = descriptor
        self.url = url
        size = Int(status.st_size)
        let modified = status.st_mtim
        entityTag = "\"\(status.st_ino)-\(status.st_size)-\(modified.tv_sec).\(modified.tv_nsec)\""
    }

    deinit { close(descriptor) }

    /// Returns the number of bytes read; 0 at the end of the file.
    func read(_ buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(FetchError) -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, offset)
            if count >= 0 { return count }
            guard errno == EINTR else { throw Self.refusal(url, errno) }
        }
    }

    private static func refusal(_ url: FetchURL, _ code: Int32) -> FetchError {
        switch code {
        case ENOENT, ENOTDIR: .fileMissing(url)
        case EACCES, EPERM: .filePermission(url)
        case EMFILE, ENFILE, ENOMEM: .exhausted(url, reason: String(cString: strerror(code)))
        default: .unreachable(url, reason: String(cString: strerror(code)))
        }
    }
}
