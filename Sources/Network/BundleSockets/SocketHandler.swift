import BundleTransport
import NIOCore
import NIOWebSocket

/// A WebSocket after its frame decoder. It receives messages, answers pings, and limits the queues in both directions.
///
/// It runs on the channel's event loop. It reads only while the queue has space, so that further data waits in the
/// kernel.
final class SocketHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    enum Side { case client, server }

    private enum Phase {
        case open
        /// This side sent a close frame and waits for the peer's.
        case closing
        /// Nothing more is sent, and the peer has to close the connection.
        case closingOutput
        case closed
    }

    private let side: Side
    private let limits: SocketLimits
    private let queue: MessageQueue
    /// Whether received messages are dropped, for sockets that only send.
    var dropsMessages = false

    private var context: ChannelHandlerContext?
    private var phase = Phase.open
    private var assembly: MessageAssembly
    private var pendingPong: ByteBuffer?
    private var end: TransportError?

    private var unsent = 0
    private var written = 0
    private var seen = (written: 0, buffered: 0)
    private var stallCheck: Scheduled<Void>?

    private var hasReceived = true
    private var heartbeatTimer: Scheduled<Void>?
    private var closeTimer: Scheduled<Void>?

    init(_ side: Side, _ limits: SocketLimits, _ queue: MessageQueue) {
        self.side = side
        self.limits = limits
        self.queue = queue
        assembly = MessageAssembly(limit: limits.message)
    }

    // MARK: Events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        scheduleHeartbeat()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        finishClosing(.lost("the peer closed it without a close frame"))
        context.fireChannelInactive()
    }

    func read(context: ChannelHandlerContext) {
        if phase != .open || dropsMessages || queue.hasRoom { context.read() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        hasReceived = true
        switch phase {
        case .open: do { try handle(frame) } catch { fail(error) }
        case .closing: if frame.opcode == .connectionClose { closeOutput() }
        case .closingOutput, .closed: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, let data = pendingPong {
            pendingPong = nil
            write(.pong, data)
            context.flush()
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .some(.inputClosed) = event as? ChannelEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        if phase == .open { end = .lost("the peer closed it without a close frame") }
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard phase == .open else {
            // Errors after an end have no effect.
            if !(error is NIOWebSocketError) && !(error is ByteToMessageDecoderError) { context.close(promise: nil) }
            return
        }
        switch error as? NIOWebSocketError {
        case .invalidFrameLength?: fail(.tooLarge(limit: limits.message))
        case .some: fail(SocketViolation("a control frame is fragmented or too long"))
        case nil:
            end = .lost(SocketFailure.reason(of: error))
            context.close(promise: nil)
        }
    }

    // MARK: Receiving

    private func handle(_ frame: WebSocketFrame) throws(SocketViolation) {
        try SocketViolation.check(frame, isOfClient: side == .server)
        switch frame.opcode {
        case .ping: answer(frame.unmaskedData)
        case .pong: pass(.pong)
        case .connectionClose: try closeWithPeer(frame.unmaskedData)
        default: if let message = try assembly.add(frame, keepsBytes: !dropsMessages) { pass(message) }
        }
    }

    /// Answers a close frame of the peer with the same code.
    private func closeWithPeer(_ data: ByteBuffer) throws(SocketViolation) {
        guard let close = CloseFrame(parsing: data) else {
            throw SocketViolation("a close frame has an invalid code or text")
        }
        end = close.end
        queue.end(close.end)
        write(.connectionClose, CloseFrame.data(close.code))
        closeOutput()
    }

    private func pass(_ message: TransportMessage) {
        if !dropsMessages { queue.add(message) }
    }

    /// Only the latest ping needs an answer (section 5.5.3), so a peer that does not read cannot fill the memory.
    private func answer(_ data: ByteBuffer) {
        if context?.channel.isWritable ?? false {
            write(.pong, data)
        } else {
            pendingPong = ByteBuffer(bytes: data.readableBytesView)
        }
    }

    // MARK: Sending

    /// Sends a message, and settles `sent` when the operating system has accepted it.
    func send(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ sent: Promised<Void>?) {
        guard let context, phase == .open else {
            sent?.settle(.failure(end ?? TransportError.isClosed))
            return
        }
        let count = data.readableBytes
        if unsent > 0 && unsent + count > limits.unsent {
            sent?.settle(.failure(TransportError.congested(limit: limits.unsent)))
            // Without `sent`, no caller receives the failure.
            if sent == nil { abandon(.congested(limit: limits.unsent)) }
            return
        }
        unsent += count
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { [self] result in
            unsent -= count
            written += 1
            if unsent == 0 {
                stallCheck?.cancel()
                stallCheck = nil
            }
            switch result {
            case .success: sent?.settle(.success(()))
            case .failure: sent?.settle(.failure(end ?? TransportError.isClosed))
            }
        }
        write(opcode, data, promise)
        context.flush()
        if unsent > 0 && stallCheck == nil { scheduleStallCheck() }
    }

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ promise: EventLoopPromise<Void>? = nil) {
        let mask = side == .client ? WebSocketMaskingKey.random() : nil
        let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: mask, data: data)
        context?.write(wrapOutboundOut(frame), promise: promise)
    }

    private func scheduleStallCheck() {
        guard let context else { return }
        seen = (written, buffered)
        stallCheck = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.stall)) { [self] in
            stallCheck = nil
            guard unsent > 0 else { return }
            if seen == (written, buffered) { abandon(.timedOut(.sending)) } else { scheduleStallCheck() }
        }
    }

    private var buffered: Int { (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    // MARK: Heartbeat

    private func scheduleHeartbeat() {
        guard let context, let heartbeat = limits.heartbeat else { return }
        heartbeatTimer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(heartbeat)) { [self] in
            checkHeartbeat(hasPinged: false)
        }
    }

    private func checkHeartbeat(hasPinged: Bool) {
        guard let context, let heartbeat = limits.heartbeat, phase == .open else { return }
        // Frames cannot arrive while reading is paused.
        let isSilent = !hasReceived && (dropsMessages || queue.hasRoom)
        hasReceived = false
        if isSilent && hasPinged { return abandon(.timedOut(.answering)) }
        if isSilent {
            write(.ping, ByteBuffer())
            context.flush()
        }
        heartbeatTimer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(heartbeat)) { [self] in
            checkHeartbeat(hasPinged: isSilent)
        }
    }

    // MARK: The end

    /// Sends a close frame and waits for the peer's.
    func startClosing() {
        guard let context, phase == .open else { return }
        phase = .closing
        write(.connectionClose, CloseFrame.data(CloseFrame.normal))
        context.flush()
        waitForClose()
        // Resumes reading if it was paused.
        context.read()
    }

    private func fail(_ violation: SocketViolation) {
        end = violation.error
        queue.end(violation.error)
        assembly = MessageAssembly(limit: limits.message)
        write(.connectionClose, CloseFrame.data(violation.code))
        closeOutput()
    }

    /// Closes the sending direction when all is sent, and drops received frames. Closing both directions would discard
    /// data that the peer has not read.
    private func closeOutput() {
        guard let context else { return }
        phase = .closingOutput
        waitForClose()
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenFailure { [self] _ in self.context?.close(promise: nil) }
        context.flush()
        // A client lets the server close the connection first (RFC 6455, section 7.1.1).
        if side == .server || end != nil { context.close(mode: .output, promise: promise) } else { promise.succeed() }
        context.read()
    }

    private func waitForClose() {
        guard let context, closeTimer == nil else { return }
        closeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.closing)) { [self] in
            self.context?.close(promise: nil)
        }
    }

    /// Closes the connection at once.
    func abandon(_ error: TransportError) {
        end = end ?? error
        queue.end(error)
        context?.close(promise: nil)
    }

    private func finishClosing(_ error: TransportError) {
        // After a close frame the end is normal.
        if phase == .open { end = end ?? error }
        phase = .closed
        queue.end(end)
        assembly = MessageAssembly(limit: limits.message)
        pendingPong = nil
        for timer in [stallCheck, heartbeatTimer, closeTimer] { timer?.cancel() }
        (stallCheck, heartbeatTimer, closeTimer) = (nil, nil, nil)
    }
}

/// The message that frames are assembled to (RFC 6455, section 5.4).
private struct MessageAssembly {
    private let limit: Int
    private var pieces: (opcode: WebSocketOpcode, bytes: [UInt8])?

    /// Creates an assembly of messages of at most `limit` bytes.
    init(limit: Int) { self.limit = limit }

    /// Adds a frame. Returns the message that it completes, if any. Without `keepsBytes`, messages are empty.
    mutating func add(_ frame: WebSocketFrame, keepsBytes: Bool) throws(SocketViolation) -> TransportMessage? {
        let opcode = try messageOpcode(frame.opcode)
        var bytes = pieces?.bytes ?? []
        pieces = nil
        if bytes.count + frame.length > limit { throw .tooLarge(limit: limit) }
        if keepsBytes { bytes.append(contentsOf: frame.unmaskedData.readableBytesView) } else { bytes = [] }
        if !frame.fin {
            pieces = (opcode, bytes)
            return nil
        }
        if opcode == .binary { return .binary(bytes) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notText }
        return .text(text)
    }

    /// Returns the opcode of the message that a frame belongs to.
    private func messageOpcode(_ opcode: WebSocketOpcode) throws(SocketViolation) -> WebSocketOpcode {
        switch opcode {
        case .text, .binary:
            if pieces != nil { throw SocketViolation("a message starts inside another") }
            return opcode
        case .continuation:
            guard let first = pieces?.opcode else { throw SocketViolation("a continuation frame has no message") }
            return first
        default: throw SocketViolation("a frame has an unknown opcode")
        }
    }
}

/// A frame that breaks a rule of RFC 6455 or a limit, and the close code for its sender.
private struct SocketViolation: Error {
    let code: Int
    let error: TransportError

    /// Creates the violation of a rule of the protocol.
    init(_ rule: String) { self.init(code: CloseFrame.protocolError, error: .protocolViolation(rule)) }

    private init(code: Int, error: TransportError) { (self.code, self.error) = (code, error) }

    static let notText = SocketViolation(
        code: CloseFrame.notText, error: .protocolViolation("a text message is not UTF-8"))

    static func tooLarge(limit: Int) -> SocketViolation {
        SocketViolation(code: CloseFrame.tooLarge, error: .messageTooLarge(limit: limit))
    }

    /// Checks the rules for every frame that the frame decoder does not check.
    static func check(_ frame: WebSocketFrame, isOfClient: Bool) throws(SocketViolation) {
        if !frame.reservedBits.isEmpty {
            throw SocketViolation("a frame uses an extension that was not negotiated")
        }
        if (frame.maskKey != nil) != isOfClient {
            throw SocketViolation(isOfClient ? "a client's frame is not masked" : "a server's frame is masked")
        }
    }
}
