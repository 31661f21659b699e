import BundlePush
import NIOCore
import NIOWebSocket

/// One WebSocket behind its frame decoder: puts messages together, checks the rules of RFC 6455 that the decoder does not,
/// answers pings, and bounds what waits in either direction.
///
/// Lives on the channel's event loop. Reads only while there is room for messages, so what is sent ahead waits in the kernel.
final class SocketHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = Never
    typealias OutboundOut = WebSocketFrame

    enum Side { case client, server }

    private enum Phase {
        case open
        /// Our close frame is sent, and the other side's has to come.
        case closing
        /// Nothing more is said; the other side has to close the connection.
        case leaving
        case closed
    }

    private let side: Side
    private let limits: SocketLimits
    private let queue: MessageQueue
    /// Whether what comes is dropped: for those that are only told things.
    var isDeaf = false

    private var context: ChannelHandlerContext?
    private var phase = Phase.open
    private var pieces: (opcode: WebSocketOpcode, bytes: [UInt8])?
    private var owedPong: ByteBuffer?
    private var end: TransportError?

    // What waits to be sent, and whether that goes on.
    private var unsent = 0
    private var written = 0
    private var seen = (written: 0, buffered: 0)
    private var stallCheck: Scheduled<Void>?

    private var hasHeard = true
    private var pulse: Scheduled<Void>?
    private var farewell: Scheduled<Void>?

    init(_ side: Side, _ limits: SocketLimits, _ queue: MessageQueue) {
        self.side = side
        self.limits = limits
        self.queue = queue
    }

    // MARK: Events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        beatLater()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        settle(.lost("the other side ended it without a word"))
        context.fireChannelInactive()
    }

    func read(context: ChannelHandlerContext) {
        if phase != .open || isDeaf || queue.hasRoom { context.read() }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        hasHeard = true
        switch phase {
        case .open: if let violation = take(frame) { fail(CloseFrame.protocolError, .protocolViolation(violation)) }
        case .closing: if frame.opcode == .connectionClose { depart() }
        case .leaving, .closed: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, let data = owedPong {
            owedPong = nil
            write(.pong, data)
            context.flush()
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .some(.inputClosed) = event as? ChannelEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        if phase == .open { end = .lost("the other side ended it without a word") }
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard phase == .open else {
            // What comes behind an error, or while nobody listens, changes nothing.
            if !(error is NIOWebSocketError) && !(error is ByteToMessageDecoderError) { context.close(promise: nil) }
            return
        }
        switch error as? NIOWebSocketError {
        case .invalidFrameLength?: fail(CloseFrame.tooLarge, .messageTooLarge(limit: limits.message))
        case .some: fail(CloseFrame.protocolError, .protocolViolation("a control frame is in pieces or too long"))
        case nil:
            end = .lost(SocketFailure.reason(of: error))
            context.close(promise: nil)
        }
    }

    // MARK: Receiving

    /// The rule that the frame breaks, if it does.
    private func take(_ frame: WebSocketFrame) -> String? {
        if !frame.reservedBits.isEmpty { return "a frame uses an extension that was not agreed upon" }
        if (frame.maskKey == nil) == (side == .server) {
            return side == .server ? "a client's frame is not masked" : "a server's frame is masked"
        }
        switch frame.opcode {
        case .text, .binary:
            if pieces != nil { return "a message begins inside another" }
            return add(frame, to: frame.opcode)
        case .continuation:
            guard let opcode = pieces?.opcode else { return "a message goes on that has not begun" }
            return add(frame, to: opcode)
        case .ping: answer(frame.unmaskedData)
        case .pong: pass(.pong)
        case .connectionClose:
            guard let close = CloseFrame(parsing: frame.unmaskedData) else {
                return "a close frame has no right code or text"
            }
            end = close.end
            queue.end(close.end)
            write(.connectionClose, CloseFrame.data(close.code))
            depart()
        default: return "a frame has an unknown opcode"
        }
        return nil
    }

    private func add(_ frame: WebSocketFrame, to opcode: WebSocketOpcode) -> String? {
        var bytes = pieces?.bytes ?? []
        pieces = nil
        if bytes.count + frame.length > limits.message {
            fail(CloseFrame.tooLarge, .messageTooLarge(limit: limits.message))
            return nil
        }
        if isDeaf { bytes = [] } else { bytes.append(contentsOf: frame.unmaskedData.readableBytesView) }
        if !frame.fin {
            pieces = (opcode, bytes)
        } else if opcode == .binary {
            pass(.binary(bytes))
        } else if let text = String(validating: bytes, as: UTF8.self) {
            pass(.text(text))
        } else {
            fail(CloseFrame.notText, .protocolViolation("a text message is not UTF-8"))
        }
        return nil
    }

    private func pass(_ message: TransportMessage) {
        if !isDeaf { queue.add(message) }
    }

    /// Only the newest ping is owed an answer (5.5.3), so that one who asks and does not read fills nothing.
    private func answer(_ data: ByteBuffer) {
        if context?.channel.isWritable ?? false {
            write(.pong, data)
        } else {
            owedPong = ByteBuffer(bytes: data.readableBytesView)
        }
    }

    // MARK: Sending

    /// Sends a message, and settles `sent` when the system has taken it.
    func send(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ sent: Promised<Void>?) {
        guard let context, phase == .open else {
            sent?.settle(.failure(end ?? TransportError.isClosed))
            return
        }
        let count = data.readableBytes
        if unsent > 0 && unsent + count > limits.unsent {
            sent?.settle(.failure(TransportError.congested(limit: limits.unsent)))
            // Nobody is there to send less.
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
        if unsent > 0 && stallCheck == nil { checkStallLater() }
    }

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ promise: EventLoopPromise<Void>? = nil) {
        let mask = side == .client ? WebSocketMaskingKey.random() : nil
        let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: mask, data: data)
        context?.write(wrapOutboundOut(frame), promise: promise)
    }

    private func checkStallLater() {
        guard let context else { return }
        seen = (written, buffered)
        stallCheck = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.stall)) { [self] in
            stallCheck = nil
            guard unsent > 0 else { return }
            if seen == (written, buffered) { abandon(.timedOut(.sending)) } else { checkStallLater() }
        }
    }

    private var buffered: Int { (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    // MARK: Signs of life

    private func beatLater() {
        guard let context, let heartbeat = limits.heartbeat else { return }
        pulse = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(heartbeat)) { [self] in
            beat(hasAsked: false)
        }
    }

    private func beat(hasAsked: Bool) {
        guard let context, let heartbeat = limits.heartbeat, phase == .open else { return }
        // What is not read cannot be heard.
        let isSilent = !hasHeard && (isDeaf || queue.hasRoom)
        hasHeard = false
        if isSilent && hasAsked { return abandon(.timedOut(.answering)) }
        if isSilent {
            write(.ping, ByteBuffer())
            context.flush()
        }
        pulse = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(heartbeat)) { [self] in
            beat(hasAsked: isSilent)
        }
    }

    // MARK: The end

    /// Says farewell and waits a little for the other side's.
    func leave() {
        guard let context, phase == .open else { return }
        phase = .closing
        write(.connectionClose, CloseFrame.data(CloseFrame.normal))
        context.flush()
        waitForFarewell()
        // Whatever held the reading holds it no longer.
        context.read()
    }

    /// Tells the other side what it did wrong, and ends.
    private func fail(_ code: Int, _ error: TransportError) {
        end = error
        queue.end(error)
        pieces = nil
        write(.connectionClose, CloseFrame.data(code))
        depart()
    }

    /// Closes this side once all is sent; what still comes is dropped. Closing the other side as well would take away from it
    /// what it has not read yet.
    private func depart() {
        guard let context else { return }
        phase = .leaving
        waitForFarewell()
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenFailure { [self] _ in self.context?.close(promise: nil) }
        context.flush()
        // A client leaves closing the connection to the server (RFC 6455, 7.1.1).
        if side == .server || end != nil { context.close(mode: .output, promise: promise) } else { promise.succeed() }
        context.read()
    }

    private func waitForFarewell() {
        guard let context, farewell == nil else { return }
        farewell = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.farewell)) { [self] in
            self.context?.close(promise: nil)
        }
    }

    /// Gives the connection up: nothing can be said over it any more.
    func abandon(_ error: TransportError) {
        end = end ?? error
        queue.end(error)
        context?.close(promise: nil)
    }

    private func settle(_ error: TransportError) {
        // After a farewell nothing is wrong with the end.
        if phase == .open { end = end ?? error }
        phase = .closed
        queue.end(end)
        pieces = nil
        owedPong = nil
        for timer in [stallCheck, pulse, farewell] { timer?.cancel() }
        (stallCheck, pulse, farewell) = (nil, nil, nil)
    }
}
