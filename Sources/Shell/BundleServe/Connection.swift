import CLibrary
import NIOCore

/// One connection of a client: reads requests, passes them to the service, and writes the responses, one at a time
/// and in order.
///
/// It belongs to the server's event loop. It reads only when it is ready for a request, so pipelined requests wait in
/// the kernel.
final class Connection: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    let service: any Service
    let table: ConnectionTable
    var context: ChannelHandlerContext?

    var phase = ConnectionPhase.idle
    var input = ByteBuffer()
    private var parser = RequestHeadParser()
    private var holdsRead = false
    /// Whether the client has closed its side.
    private var clientIsDone = false
    /// Whether the server has closed its side.
    private var hasLeft = false

    /// Whether another request may follow the present one.
    var keepsOpen = true
    /// Whether the present request is a HEAD.
    var isHead = false
    /// The body of the present request, until the service reads it. A request behind an unread body cannot be parsed.
    var unread: (length: Int, expectsContinue: Bool)?
    /// The number of bytes that the table has reserved for that body.
    private var reserved = 0
    var lastNavigation: Navigation?
    var stream: Task<Void, Never>?

    /// The moment since which the connection has had no complete request.
    private(set) var waitsSince = NIODeadline.now()
    private var readsBodySince = NIODeadline.now()

    // The state at the last sweep.
    private var isFresh = true
    private var since = NIODeadline.now()
    private var unsent = 0

    /// The log entry of the present response, if responses are logged.
    var entry: AccessEntry?

    /// The largest unread input. When its client closes, a paused connection receives all that the kernel had
    /// buffered.
    private static var maximumInput: Int { 1 << 20 }

    init(_ service: any Service, _ table: ConnectionTable) {
        self.service = service
        self.table = table
    }

    // MARK: Events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        table.add(self)
    }

    func channelInactive(context: ChannelHandlerContext) {
        enter(.closed)
        endEntry(isCut: true)
        stream?.cancel()
        table.remove(self)
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func read(context: ChannelHandlerContext) {
        if wantsInput { context.read() } else { holdsRead = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        switch phase {
        case .leaving, .streaming, .closed: return
        default: break
        }
        if input.readableBytes == 0 { input = bytes } else { input.writeBuffer(&bytes) }
        if input.readableBytes > Self.maximumInput {
            context.close(promise: nil)
        } else {
            process()
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        resume()
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .some(.inputClosed) = event as? ChannelEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        clientIsDone = true
        switch phase {
        case .idle where context.channel.isWritable, .readingHead, .readingBody, .streaming: leave()
        case .leaving where hasLeft: context.close(promise: nil)
        case .idle, .asking, .sending, .changing, .leaving, .closed: break
        }
    }

    // MARK: Requests

    private var wantsInput: Bool { phase.wantsInput(isWritable: context?.channel.isWritable ?? false) }

    /// Continues after an event other than input.
    func resume() {
        process()
        context?.flush()
        if holdsRead && wantsInput {
            holdsRead = false
            context?.read()
        }
    }

    private func process() {
        while true {
            switch phase {
            case .idle, .readingHead:
                guard context?.channel.isWritable ?? false else { return }
                guard input.readableBytes > 0 else {
                    if clientIsDone { leave() }
                    return
                }
                guard readHead() else { return }
            case .readingBody(let length, let promise):
                guard let body = input.readBytes(length: length) else {
                    if clientIsDone { leave() }
                    return
                }
                promise.succeed(body)
                enter(.asking)
            case .asking, .sending, .streaming, .changing, .leaving, .closed: return
            }
        }
    }

    /// Reads a head. Returns false if it is incomplete.
    private func readHead() -> Bool {
        switch input.withUnsafeReadableBytes({ parser.read($0) }) {
        case .incomplete:
            if case .idle = phase { enter(.readingHead) }
            return false
        case .refused(let status):
            unread = nil
            isHead = false
            beginEntry(nil)
            enter(.asking)
            send(Response.refusal(status).closing)
        case .complete(let head):
            parser = RequestHeadParser()
            guard let context, let bytes = input.readSlice(length: head.length) else { return false }
            ask(Request(head, bytes, RequestBody(self, context.channel), after: lastNavigation))
        }
        return true
    }

    /// Passes a request to the service, on this thread at first: most responses are ready before this returns.
    private func ask(_ request: Request) {
        guard let loop = context?.eventLoop else { return }
        keepsOpen = request.keepsOpen && !table.isStopping
        isHead = request.isHead
        unread = request.hasBody ? (request.head.bodyLength ?? 0, request.expectsContinue) : nil
        beginEntry(request)
        enter(.asking)
        let connection = NIOLoopBound(self, eventLoop: loop)
        Task.immediate(priority: .high) { [service] in
            let response = await service.respond(to: request)
            if loop.inEventLoop { return connection.value.send(response) }
            loop.execute {
                connection.value.send(response)
                connection.value.resume()
            }
        }
    }

    /// Reads the body of the present request.
    func readBody(_ promise: EventLoopPromise<[UInt8]>) {
        guard case .asking = phase else { return promise.fail(ChannelError.eof) }
        guard let body = unread else { return promise.succeed([]) }
        guard table.reserve(body.length) else { return promise.fail(NoBufferSpace()) }
        reserved = body.length
        unread = nil
        enter(.readingBody(length: body.length, promise))
        if body.expectsContinue && input.readableBytes == 0 {
            write(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n"))
        }
        resume()
    }

    // MARK: States

    /// Closes the sending side when everything is sent. Closing both sides would discard a response that the client
    /// has not read yet.
    func leave() {
        guard let context else { return }
        switch phase {
        case .leaving, .closed: return
        default: enter(.leaving)
        }
        input = ByteBuffer()
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { [self] _ in
            hasLeft = true
            if clientIsDone {
                self.context?.close(promise: nil)
            } else {
                self.context?.close(mode: .output, promise: nil)
            }
        }
        context.writeAndFlush(wrapOutboundOut(.byteBuffer(ByteBuffer())), promise: promise)
    }

    func enter(_ next: ConnectionPhase) {
        if case .closed = phase { return }
        // A reader that waits for the rest of a body receives an error; a complete body stays valid.
        if case .readingBody(_, let promise) = phase { promise.fail(ChannelError.eof) }
        phase = next
        isFresh = true
        switch next {
        case .readingBody:
            readsBodySince = .now()
            return
        case .asking: return
        case .idle:
            waitsSince = .now()
            // An empty buffer would keep its capacity.
            if input.readableBytes == 0 { input = ByteBuffer() }
        default: break
        }
        table.release(reserved)
        reserved = 0
    }

    // MARK: Time

    /// Closes the connection if its present state has lasted too long. The table calls it periodically.
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        let unsent = (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        if isFresh || unsent != self.unsent {
            isFresh = false
            self.unsent = unsent
            since = now
        }
        if case .streaming = phase, unsent == 0 { return beat(now) }
        let limit = unsent > 0 ? service.limits.stall : phase.timeout(service.limits)
        if let limit, since + TimeAmount(limit) <= now { context.close(promise: nil) }
    }

    private func beat(_ now: NIODeadline) {
        guard since + TimeAmount(service.limits.heartbeat) <= now else { return }
        since = now
        write(ByteBuffer(staticString: ":\n\n"))
        context?.flush()
    }

    /// Closes a connection without a request at once, and another one after its response.
    func stop() {
        keepsOpen = false
        switch phase {
        case .idle, .readingHead, .readingBody: leave()
        case .streaming:
            stream?.cancel()
            leave()
        case .asking, .sending, .changing, .leaving, .closed: break
        }
    }

    /// Whether no request is being processed, so the client may connect again.
    var isWaiting: Bool { phase.isWaiting }

    /// The moment since which the client has not read a response; nil if none is being sent.
    var unreadSince: NIODeadline? { phase.isUnread ? since : nil }

    /// The moment since which a body is being received; nil if there is none.
    var bodySince: NIODeadline? { if case .readingBody = phase { readsBodySince } else { nil } }

    /// Closes the connection to release the buffer space of its incomplete body.
    func closeForSpace() { leave() }

    func close() {
        stream?.cancel()
        context?.close(promise: nil)
    }
}

// Responses, their log entries, and the change to a WebSocket.
extension Connection {
    /// Writes a response, unless the client has closed the connection.
    func send(_ response: Response) {
        guard case .asking = phase else { return }
        if response.closes || unread != nil { keepsOpen = false }
        lastNavigation = response.navigation ?? lastNavigation
        entry?.status = response.status
        entry?.bytes = isHead ? 0 : response.length
        write(service.fields.start(response.status, closes: !keepsOpen, hasPolicy: response.hasPolicy))
        if isHead { return finish(.byteBuffer(response.fields)) }
        switch response.body {
        case .none: finish(.byteBuffer(response.fields))
        case .bytes(let bytes):
            write(response.fields)
            finish(.byteBuffer(bytes))
        case .file(let file, let part):
            write(response.fields)
            let region = FileRegion(fileHandle: file.handle, readerIndex: part.lowerBound, endIndex: part.upperBound)
            finish(.fileRegion(region), from: file)
        case .events(let events, let page):
            write(response.fields)
            stream(events, of: page)
        case .socket(let change):
            write(response.fields)
            begin(change)
        }
    }

    func write(_ bytes: ByteBuffer) {
        context?.write(wrapOutboundOut(.byteBuffer(bytes)), promise: nil)
    }

    /// Writes the last part of a response. `file` is its source.
    private func finish(_ last: IOData, from file: OpenFile? = nil) {
        guard let context else { return }
        if keepsOpen && file == nil {
            context.write(wrapOutboundOut(last), promise: nil)
            endEntry(isCut: false)
            return enter(.idle)
        }
        enter(.sending(file))
        if file != nil { cork(true) }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { [self] result in
            if file != nil { cork(false) }
            guard case .sending = phase, case .success = result else { return }
            endEntry(isCut: false)
            if keepsOpen { enter(.idle) } else { leave() }
            resume()
        }
        context.writeAndFlush(wrapOutboundOut(last), promise: promise)
    }

    /// Has the kernel collect the parts of a file before it sends them (tcp(7), TCP_CORK), which doubles the
    /// throughput.
    private func cork(_ isOn: Bool) {
        try? context?.channel.syncOptions?.setOption(.tcpOption(.init(rawValue: TCP_CORK)), value: isOn ? 1 : 0)
    }

    /// Writes events one by one, each when the kernel has accepted the one before, and closes after the last.
    private func stream(_ events: AsyncStream<PageEvent>, of page: String) {
        guard let channel = context?.channel else { return }
        enter(.streaming)
        table.beginStream(self, of: page, on: channel)
        let connection = NIOLoopBound(self, eventLoop: channel.eventLoop)
        stream = Task(priority: .high) {
            for await event in events {
                do { try await channel.writeAndFlush(event.text) } catch { break }
            }
            channel.eventLoop.execute { connection.value.leaveStream() }
        }
    }

    private func leaveStream() {
        if case .streaming = phase { leave() }
    }

    // MARK: WebSockets

    /// Makes the connection a WebSocket.
    private func begin(_ change: SocketSwitch) {
        guard let context else { return }
        enter(.changing)
        context.flush()
        endEntry(isCut: false)
        table.remove(self)
        let channel = context.channel
        if !change.isCounted { table.gate?.release(channel) }
        let rest = input
        input = ByteBuffer()
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        change.take().assumeIsolated().whenComplete { result in
            guard case .success = result else { return channel.close(promise: nil) }
            // Bytes behind the request belong to the socket.
            if rest.readableBytes > 0 {
                channel.pipeline.syncOperations.fireChannelRead(NIOAny(rest))
                channel.pipeline.syncOperations.fireChannelReadComplete()
            }
            // Reading was paused during the change.
            channel.read()
        }
    }

    // MARK: Log

    private func beginEntry(_ request: Request?) {
        guard service.log != nil else { return }
        entry = AccessEntry(request, from: context?.remoteAddress?.ipAddress)
    }

    private func endEntry(isCut: Bool) {
        guard let entry else { return }
        self.entry = nil
        service.log?(entry.ended(isCut: isCut))
    }
}

/// The state of a connection. Each state has its own time limit.
enum ConnectionPhase {
    /// No byte of a request has arrived.
    case idle
    case readingHead
    /// The service is waiting for the body.
    case readingBody(length: Int, EventLoopPromise<[UInt8]>)
    /// The service is preparing the response.
    case asking
    /// The kernel is sending the response. The file that it is sent from stays open.
    case sending(OpenFile?)
    case streaming
    /// The connection becomes a WebSocket.
    case changing
    /// Everything is sent, and the client has to close.
    case leaving
    case closed

    /// Whether no request is being processed, so the client may connect again.
    var isWaiting: Bool {
        switch self {
        case .idle, .readingHead: true
        case .readingBody, .asking, .sending, .streaming, .changing, .leaving, .closed: false
        }
    }

    /// Whether a response is being sent that the client has not read.
    var isUnread: Bool {
        switch self {
        case .sending, .leaving: true
        case .idle, .readingHead, .readingBody, .asking, .streaming, .changing, .closed: false
        }
    }

    /// Returns whether the connection reads. It pauses while its client does not read responses, so it is not writable.
    func wantsInput(isWritable: Bool) -> Bool {
        switch self {
        case .idle, .readingHead, .readingBody: isWritable
        case .leaving: true
        case .asking, .sending, .streaming, .changing, .closed: false
        }
    }

    /// Returns the longest time in this state; nil if only unsent bytes limit it.
    func timeout(_ limits: ServerLimits) -> Duration? {
        switch self {
        case .idle: limits.idle
        case .readingHead, .readingBody: limits.request
        case .leaving: limits.closing
        case .streaming, .sending, .asking, .changing, .closed: nil
        }
    }
}
