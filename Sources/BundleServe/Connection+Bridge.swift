import BundleCore
import NIOCore

extension Connection<PageService> {
    /// Checks all that the head tells, and then waits for the body.
    func answerCall(_ method: String, _ request: Request) {
        let token = request.text(.token)
        // After a refusal the body is not read, so nothing can follow it.
        let keepsOpen = keepsOpen
        if request.hasBody { self.keepsOpen = false }
        guard service.rules.isFromOurPage(request), let token, !token.isEmpty else {
            return refuseCall(.forbidden, request)
        }
        guard request.with(.contentType, Self.isJSON) ?? false else {
            return refuseCall(.unsupportedMediaType, request)
        }
        guard let length = request.head.bodyLength else { return refuseCall(.lengthRequired, request) }
        guard length <= PageCall.longestBody else { return refuseCall(.bodyTooLarge, request) }
        let expects = request.has(.expect) && !request.head.isOldVersion
        if expects {
            let isContinue = request.with(.expect) { HTTPBytes.areSame($0, "100-continue") } ?? false
            guard isContinue else { return refuseCall(.expectationFailed, request) }
        }
        self.keepsOpen = keepsOpen
        waitForBody(PageCall(method: method, token: token, length: length), sayingContinue: expects)
    }

    private static func isJSON(_ value: UnsafeRawBufferPointer) -> Bool {
        let type = HTTPBytes.trimmed(UnsafeRawBufferPointer(rebasing: value.prefix { $0 != UInt8(ascii: ";") }))
        guard type.count == 16, type[11] == HTTPBytes.slash else { return false }
        return HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[..<11]), "application")
            && HTTPBytes.areSame(UnsafeRawBufferPointer(rebasing: type[12...]), "json")
    }

    /// Hands a call whose body has come to the host.
    func carryOut(_ call: PageCall, _ body: [UInt8]) {
        guard let object = try? JSONScanner.parse(body, maximumBytes: PageCall.longestBody).objectValue else {
            return refuseCall(.badRequest, nil)
        }
        ask { [host = service.host] in
            try await host.call(call.method, token: call.token, body: object)
        } then: { [self] result in
            switch result {
            case .success(let answer): sendJSON(.ok, answer, caching: "no-store", nil)
            case .failure(let error): refuse(error)
            }
        }
    }

    // MARK: Events

    /// Opens the page's stream of events.
    func openEvents(_ request: Request) {
        guard let token = request.text(.token), !token.isEmpty else { return refuseCall(.forbidden, request) }
        ask { [host = service.host] in
            try await host.events(token: token)
        } then: { [self] result in
            switch result {
            case .success(let events): send(events)
            case .failure(let error): refuse(error)
            }
        }
    }

    private func send(_ events: AsyncStream<PageEvent>) {
        guard let context else { return }
        keepsOpen = false
        var head = service.fields.start(.ok, closes: true)
        head.writeString("Content-Type: \(MediaType.events)\r\nCache-Control: no-store\r\n\r\n")
        write(head)
        enter(.streaming)
        let channel = context.channel
        let connection = NIOLoopBound(self, eventLoop: context.eventLoop)
        stream = Self.forward(events, to: channel) { connection.value.leaveStream() }
    }

    /// Writes events one by one, each when the one before is with the kernel; then calls `end` on the event loop.
    private static func forward(
        _ events: AsyncStream<PageEvent>, to channel: any Channel, end: @escaping @Sendable () -> Void
    ) -> Task<Void, Never> {
        Task(priority: .high) {
            for await event in events {
                do { try await channel.writeAndFlush(text(of: event)) } catch { break }
            }
            channel.eventLoop.execute(end)
        }
    }

    private func leaveStream() {
        if case .streaming = phase { leave() }
    }

    /// An event as the HTML standard writes it; JSON on one line has no line ends to be escaped.
    private static func text(of event: PageEvent) -> ByteBuffer {
        var text = ByteBuffer()
        let name = event.name.utf8.prefix { $0 >= 0x20 }
        text.writeString("event: \(String(decoding: name, as: UTF8.self))\ndata: ")
        text.writeBytes(JSONWriter.bytes(of: .object(event.data)))
        text.writeStaticString("\n\n")
        return text
    }

    // MARK: Answers in JSON

    private func refuseCall(_ status: Status, _ request: Request?) {
        sendError(status.rawValue, code: status.code, message: "\(status.reason)", request)
    }

    private func refuse(_ error: any Error) {
        guard let refusal = error as? CallRefusal, (400...599).contains(refusal.status) else {
            return refuseCall(.failed, nil)
        }
        sendError(refusal.status, code: refusal.code, message: refusal.message, nil)
    }

    private func sendError(_ status: Int, code: String, message: String, _ request: Request?) {
        let error: JSONObject = ["code": .string(code), "message": .string(message)]
        sendJSON(number: status, ["error": .object(error)], caching: "no-store", request)
    }

    func sendJSON(_ status: Status, _ object: JSONObject, caching: String, _ request: Request?) {
        sendJSON(number: status.rawValue, object, caching: caching, request)
    }

    private func sendJSON(number: Int, _ object: JSONObject, caching: String, _ request: Request?) {
        let body = JSONWriter.bytes(of: .object(object))
        var head = service.fields.start(number: number, closes: !keepsOpen)
        head.writeString(
            """
            Content-Type: \(MediaType.json)\r
            Cache-Control: \(caching)\r
            Content-Length: \(body.count)\r\n\r\n
            """)
        if !(request?.isHead ?? false) { head.writeBytes(body) }
        finish(.byteBuffer(head))
    }
}

extension Status {
    /// A word for programs.
    fileprivate var code: String {
        switch self {
        case .forbidden: "forbidden"
        case .unsupportedMediaType: "notJSON"
        case .lengthRequired: "lengthRequired"
        case .bodyTooLarge: "tooLarge"
        case .expectationFailed: "expectationFailed"
        case .badRequest: "badRequest"
        default: "failed"
        }
    }
}
