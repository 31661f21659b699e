import BundleCore
import NIOCore

// What all servers answer alike.
extension Connection {
    // MARK: Files

    func send(_ file: SiteFile, _ request: Request) {
        let fields = file.fields(for: request)
        if request.with(.ifNoneMatch, { EntityTag.isNamed(file.tag, in: $0) }) ?? false {
            return send(.notModified, service.fields(before: file) + fields.validators + Array("\r\n".utf8))
        }
        let range = request.isHead ? .whole : range(of: file, request)
        switch range {
        case .unsatisfiable:
            finish(
                .rangeNotSatisfiable, fields: "Content-Range: bytes */\(file.size)\r\n",
                text: "\(Status.rangeNotSatisfiable.reason)", request)
        case .part(let part):
            noteAnswer(Status.partialContent.rawValue, bytes: part.count)
            write(service.fields.start(.partialContent, closes: !keepsOpen))
            write(ByteBuffer(bytes: service.fields(before: file) + fields.partHead(part)))
            sendContent(of: file, part)
        case .whole:
            noteAnswer(Status.ok.rawValue, bytes: request.isHead ? 0 : file.size)
            write(service.fields.start(.ok, closes: !keepsOpen))
            if file.isPage { write(ByteBuffer(bytes: service.fields(before: file))) }
            if request.isHead { return finish(.byteBuffer(fields.wholeHead)) }
            if !file.isOpen { return finish(.byteBuffer(fields.whole)) }
            write(fields.wholeHead)
            sendContent(of: file, 0..<file.size)
        }
    }

    private func range(of file: SiteFile, _ request: Request) -> ByteRange {
        // A date, or a weak tag, never equals ours: the whole then.
        guard request.with(.ifRange, { $0.elementsEqual(file.tag) }) ?? true else { return .whole }
        return request.with(.range) { ByteRange(parsing: $0, size: file.size) } ?? .whole
    }

    private func sendContent(of file: SiteFile, _ part: Range<Int>) {
        switch file.content {
        case .bytes(let bytes):
            finish(.byteBuffer(bytes.getSlice(at: bytes.readerIndex + part.lowerBound, length: part.count) ?? bytes))
        case .open(let open):
            let region = FileRegion(fileHandle: open.handle, readerIndex: part.lowerBound, endIndex: part.upperBound)
            finish(.fileRegion(region), from: open)
        }
    }

    // MARK: Refusals and short answers

    /// Refuses with the reason phrase as the only text.
    func refuse(_ status: Status, allow: String? = nil, _ request: Request? = nil) {
        var fields = allow.map { "Allow: \($0)\r\n" } ?? ""
        if status == .headTooLarge { fields += Self.fewerCookies }
        finish(status, fields: fields, text: "\(status.reason)", request)
    }

    /// Cookies outlive the client that set them: too many would keep every other one from being shown, too.
    private static var fewerCookies: String { "Clear-Site-Data: \"cookies\"\r\nRefresh: 1\r\n" }

    func finish(_ status: Status, fields: String, text: String, _ request: Request?) {
        var head = service.fields.start(status, closes: !keepsOpen)
        let body = text.isEmpty ? "" : text + "\n"
        head.writeString(
            """
            \(fields)Content-Type: \(MediaType.text)\r
            Cache-Control: no-store\r
            Content-Length: \(body.utf8.count)\r\n\r\n
            """)
        let isHead = request?.isHead ?? false
        if !isHead { head.writeString(body) }
        noteAnswer(status.rawValue, bytes: isHead ? 0 : body.utf8.count)
        finish(.byteBuffer(head))
    }

    func send(_ status: Status, _ fieldsAndEnd: [UInt8]) {
        noteAnswer(status.rawValue, bytes: 0)
        var head = service.fields.start(status, closes: !keepsOpen)
        head.writeBytes(fieldsAndEnd)
        finish(.byteBuffer(head))
    }
}
