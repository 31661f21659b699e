import Synchronization

/// Adapts a WebSocket owned by a delegate, such as Apple's URLSession, to a transport.
///
/// The delegate has one socket at a time. A new connection abandons the previous one.
public final class DelegateConnector: TransportConnector {
    /// The limits of one transport.
    public struct Limits: Sendable {
        /// The largest message in either direction, in bytes.
        public var message = 1 << 20
        /// The number of messages that may wait to be received.
        public var waitingMessages = 16
        /// The bytes that may wait to be received.
        public var waitingBytes = 256 << 10

        /// The recommended limits.
        public init() {}
    }

    fileprivate let delegate: any WebSocketDelegate
    fileprivate let limits: Limits
    private let current = Mutex<SyncBridge?>(nil)

    /// Connects through `delegate`.
    public init(_ delegate: any WebSocketDelegate, limits: Limits = Limits()) {
        self.delegate = delegate
        self.limits = limits
    }

    /// Opens a socket through the delegate.
    public func connect(_ url: SocketURL) async throws -> any SyncTransport {
        let bridge = SyncBridge(
            MessageQueue.Limit(messages: limits.waitingMessages, bytes: limits.waitingBytes),
            maximumMessage: limits.message)
        let former = current.withLock { current in
            defer { current = bridge }
            return current
        }
        if let former {
            former.onError("another socket replaced it")
            await delegate.closeWebSocket()
        }
        do {
            try Task.checkCancellation()
            await delegate.openWebSocket(url, reportingTo: bridge)
            try await bridge.opened.value
        } catch {
            await release(bridge)
            throw error
        }
        return DelegateTransport(of: self, bridge)
    }

    /// Closes the delegate's socket if it still belongs to `bridge`.
    fileprivate func release(_ bridge: SyncBridge) async {
        bridge.queue.discard()
        let isCurrent = current.withLock { current in
            guard current === bridge else { return false }
            current = nil
            return true
        }
        if isCurrent { await delegate.closeWebSocket() }
    }
}

private final class DelegateTransport: SyncTransport {
    private let connector: DelegateConnector
    private let bridge: SyncBridge

    init(of connector: DelegateConnector, _ bridge: SyncBridge) {
        self.connector = connector
        self.bridge = bridge
    }

    func sendBinary(_ bytes: [UInt8]) async throws {
        try await send(bytes.count) { try await connector.delegate.sendBinary(bytes) }
    }

    func sendText(_ text: String) async throws {
        try await send(text.utf8.count) { try await connector.delegate.sendText(text) }
    }

    func sendPing() async throws {
        try await send(0) { try await connector.delegate.sendPing() }
    }

    private func send(_ count: Int, _ work: () async throws -> Void) async throws {
        let limit = connector.limits.message
        if count > limit { throw TransportError.messageTooLarge(limit: limit) }
        // Without this check the message would go to the socket that replaced this one.
        if bridge.queue.hasEnded { throw TransportError.isClosed }
        do {
            try await work()
        } catch {
            // Delegates throw errors of their frameworks.
            if error is CancellationError || error is TransportError { throw error }
            throw bridge.queue.hasEnded ? TransportError.isClosed : TransportError.lost("\(error)")
        }
    }

    func receive() async throws -> TransportMessage? { try await bridge.queue.take() }

    func close() async { await connector.release(bridge) }
}

/// The owner of a WebSocket outside of this package, such as `URLSessionWebSocketTask` in an Apple shell.
///
/// It has one socket at a time and reports its events to the bridge. Methods that do not wait can be written without
/// `async`. A method must not call its caller and wait for it.
public protocol WebSocketDelegate: Sendable {
    /// Starts to open a socket. Its events go to `bridge` and to no earlier bridge.
    func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) async

    /// Sends a binary message. Returns when the operating system has accepted it, so that a slow peer slows the sender
    /// down.
    func sendBinary(_ bytes: [UInt8]) async throws

    /// Sends a text message in the same way.
    func sendText(_ text: String) async throws

    /// Sends a ping. The answer is reported to the bridge.
    func sendPing() async throws

    /// Closes the socket, even while it is opening.
    func closeWebSocket() async
}
