import Glibc
import NIOCore

/// One connection of a browser: reads requests, answers them in their order, one at a time.
///
/// Lives on the server's event loop. Reads only when it is ready for a request, so what a client sends ahead waits in the kernel.
final class Connection<Answers: Service>: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// What the connection is doing; each has its time limit.
    enum Phase {
        /// Nothing of a request has come.
        case idle
        case readingHead
        case readingBody(PageCall)
        /// The host is working on the answer.
        case asking
        /// The answer is with the kernel; the file it comes from stays open meanwhile.
        case sending(OpenFile?)
        case streaming
        /// Another protocol takes the connection over.
        case changing
        /// Everything is sent, and the client has to close.
        case leaving
        case closed
    }

    let service: Answers
    private let table: ConnectionTable<Answers>
    private(set) var context: ChannelHandlerContext?

    private(set) var phase = Phase.idle
    private var input = ByteBuffer()
    private var parser = RequestHeadParser()
    private var holdsRead = false
    /// The client will send nothing more.
    private var clientIsDone = false
    /// Our side is closed.
    private var hasLeft = false

    /// Whether another request may follow the one that is being answered.
    var keepsOpen = true
    /// The files of the last navigation on this connection, for clients that keep no cookies.
    var pinned: (site: Site, generation: Int)?
    var stream: Task<Void, Never>?

    // For the sweep: what has happened since it last looked.
    private var isFresh = true
    private var since = NIODeadline.now()
    private var unsent = 0

    /// The answer under way, where somebody hears of it.
    private var entry: AccessEntry?

    /// A paused connection gets what was in the kernel's buffer when its client is done; no more than this is looked at.
    private static var maximumInput: Int { 1 << 20 }

    init(_ service: Answers, _ table: ConnectionTable<Answers>) {
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

    private var wantsInput: Bool {
        switch phase {
        case .idle, .readingHead, .readingBody: context?.channel.isWritable ?? false
        case .leaving: true
        case .asking, .sending, .streaming, .changing, .closed: false
        }
    }

    /// Goes on after something other than input has let it.
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
            case .readingBody(let call):
                guard let body = input.readBytes(length: call.length) else { return }
                service.carryOut(call, body, on: self)
            case .asking, .sending, .streaming, .changing, .leaving, .closed: return
            }
        }
    }

    /// False when more has to come.
    private func readHead() -> Bool {
        switch input.withUnsafeReadableBytes({ parser.read($0) }) {
        case .incomplete:
            if case .idle = phase { enter(.readingHead) }
            return false
        case .refused(let status):
            keepsOpen = false
            beginEntry(nil)
            refuse(status)
        case .complete(let head):
            parser = RequestHeadParser()
            guard let bytes = input.readSlice(length: head.length) else { return false }
            let request = Request(head, bytes)
            keepsOpen = request.keepsOpen && !table.isStopping
            beginEntry(request)
            service.answer(request, on: self)
        }
        return true
    }

    func waitForBody(_ call: PageCall, sayingContinue: Bool) {
        enter(.readingBody(call))
        guard sayingContinue && input.readableBytes == 0 else { return }
        write(ByteBuffer(staticString: "HTTP/1.1 100 Continue\r\n\r\n"))
        context?.flush()
    }

    // MARK: Answers

    func write(_ bytes: ByteBuffer) {
        context?.write(wrapOutboundOut(.byteBuffer(bytes)), promise: nil)
    }

    /// Writes the last piece of an answer; `file` is what it comes from.
    func finish(_ last: IOData, from file: OpenFile? = nil) {
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

    /// Keeps the kernel from sending the pieces of a file as they come (tcp(7), TCP_CORK): twice as fast for who receives them.
    private func cork(_ isOn: Bool) {
        try? context?.channel.syncOptions?.setOption(.tcpOption(.init(rawValue: TCP_CORK)), value: isOn ? 1 : 0)
    }

    /// Lets the host work, and goes on with what it says unless the client has gone by then.
    func ask<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value, then: @escaping (Result<Value, any Error>) -> Void
    ) {
        guard let context else { return }
        let promise = context.eventLoop.makePromise(of: Value.self)
        // A page does not wait for what the process does in the background.
        Task(priority: .high) {
            do { promise.succeed(try await work()) } catch { promise.fail(error) }
        }
        wait(for: promise.futureResult, then: then)
    }

    /// Goes on with what comes of a future of the connection's event loop, unless the client has gone by then.
    func wait<Value: Sendable>(for future: EventLoopFuture<Value>, then: @escaping (Result<Value, any Error>) -> Void) {
        enter(.asking)
        future.assumeIsolated().whenComplete { [self] result in
            guard case .asking = phase else { return }
            then(result)
            resume()
        }
    }

    /// Closes our side when all is sent. Closing the other as well would take away an answer that the client has not read yet.
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

    func enter(_ next: Phase) {
        if case .closed = phase { return }
        phase = next
        isFresh = true
    }

    // MARK: Log

    private func beginEntry(_ request: Request?) {
        guard service.keepsLog else { return }
        entry = AccessEntry(request, from: context?.remoteAddress?.ipAddress)
    }

    /// Notes what the answer says, for whoever hears of it.
    func noteAnswer(_ status: Int, bytes: Int) {
        entry?.status = status
        entry?.bytes = bytes
    }

    private func endEntry(isCut: Bool) {
        guard let entry else { return }
        self.entry = nil
        service.note(entry.ended(isCut: isCut))
    }

    // MARK: Other protocols

    /// Gives the connection to another protocol, which has agreed to take it; `fields` are of its answer.
    func change(to other: any ProtocolSwitch, after request: Request, _ fields: [(name: String, value: String)]) {
        guard let context else { return }
        enter(.changing)
        var head = service.fields.start(.switchingProtocols, closes: false)
        head.writeString(fields.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n")
        write(head)
        context.flush()
        noteAnswer(Status.switchingProtocols.rawValue, bytes: 0)
        endEntry(isCut: false)
        table.remove(self)
        let channel = context.channel
        let rest = input
        input = ByteBuffer()
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
        other.take(channel, after: SwitchRequest(request)).assumeIsolated().whenComplete { result in
            guard case .success = result else { return channel.close(promise: nil) }
            // What the client said right behind its request belongs to the other protocol.
            if rest.readableBytes > 0 {
                channel.pipeline.syncOperations.fireChannelRead(NIOAny(rest))
                channel.pipeline.syncOperations.fireChannelReadComplete()
            }
            // Reading was held meanwhile.
            channel.read()
        }
    }

    // MARK: Time

    /// Ends what lasts too long; called every now and then.
    func sweep(_ now: NIODeadline) {
        guard let context else { return }
        let unsent = (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        if isFresh || unsent != self.unsent {
            isFresh = false
            self.unsent = unsent
            since = now
        }
        let limit: Duration?
        switch phase {
        case _ where unsent > 0: limit = service.limits.stall
        case .idle: limit = service.limits.idle
        case .readingHead, .readingBody: limit = service.limits.request
        case .leaving: limit = service.limits.farewell
        case .streaming: return beat(now)
        case .sending, .asking, .changing, .closed: limit = nil
        }
        if let limit, since + TimeAmount(limit) <= now { context.close(promise: nil) }
    }

    private func beat(_ now: NIODeadline) {
        guard since + TimeAmount(service.limits.heartbeat) <= now else { return }
        since = now
        write(ByteBuffer(staticString: ":\n\n"))
        context?.flush()
    }

    /// Ends at once what waits for the client, and the rest with its answer.
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

    func close() { context?.close(promise: nil) }
}
