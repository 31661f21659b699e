package import BundleTransport
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An example for Apple shells: an owner of a `URLSessionWebSocketTask` for `DelegateConnector(URLSessionSocket())`. Here
/// it is only type-checked.
///
/// It requires macOS 15, iOS 18 or later. The system verifies certificates.
package final class URLSessionSocket: WebSocketDelegate {
    private struct Owned {
        let session: URLSession
        let task: URLSessionWebSocketTask
        let bridge: SyncBridge
        let reading: Task<Void, Never>
    }

    private let owned = Mutex<Owned?>(nil)
    private let maximumMessage: Int
    private let fields: @Sendable (SocketURL) -> [(name: String, value: String)]

    /// Creates an owner without a socket. `fields` returns more header fields for a URL, such as a token.
    package init(
        maximumMessage: Int = 1 << 20,
        fields: @escaping @Sendable (SocketURL) -> [(name: String, value: String)] = { _ in [] }
    ) {
        self.maximumMessage = maximumMessage
        self.fields = fields
    }

    package func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) {
        guard let address = URL(string: url.description) else {
            return bridge.onError("\(url) is no URL to this system")
        }
        var request = URLRequest(url: address)
        for (name, value) in fields(url) { request.setValue(value, forHTTPHeaderField: name) }
        // A session retains its delegate until it is invalidated, so each socket has its own session.
        let session = URLSession(configuration: .ephemeral, delegate: SocketReports(to: bridge), delegateQueue: nil)
        let task = session.webSocketTask(with: request)
        task.maximumMessageSize = maximumMessage
        let reading = Task { await Self.read(task, bridge) }
        let former = replace(by: Owned(session: session, task: task, bridge: bridge, reading: reading))
        Self.close(former)
        task.resume()
    }

    package func sendBinary(_ bytes: [UInt8]) async throws { try await current.task.send(.data(Data(bytes))) }

    package func sendText(_ text: String) async throws { try await current.task.send(.string(text)) }

    package func sendPing() throws {
        let current = try current
        current.task.sendPing { error in
            if let error { current.bridge.onError(error.localizedDescription) } else { current.bridge.onPong() }
        }
    }

    package func closeWebSocket() { Self.close(replace(by: nil)) }

    private var current: Owned {
        get throws {
            guard let owned = owned.withLock({ $0 }) else { throw TransportError.isClosed }
            return owned
        }
    }

    private func replace(by next: Owned?) -> Owned? {
        owned.withLock { owned in
            defer { owned = next }
            return owned
        }
    }

    private static func close(_ owned: Owned?) {
        owned?.reading.cancel()
        owned?.task.cancel(with: .normalClosure, reason: nil)
        owned?.session.finishTasksAndInvalidate()
    }

    /// Reads messages one after another, as fast as the bridge accepts them.
    private static func read(_ task: URLSessionWebSocketTask, _ bridge: SyncBridge) async {
        do {
            while !Task.isCancelled {
                switch try await task.receive() {
                case .string(let text): await bridge.onTextMessage(text)
                case .data(let data): await bridge.onBinaryMessage([UInt8](data))
                @unknown default: break
                }
            }
        } catch {
            // The session reports the end, unless this side closed the socket.
            if Task.isCancelled { bridge.onDisconnected() }
        }
    }
}

/// Reports the events of a session to the bridge of its socket.
private final class SocketReports: NSObject, URLSessionWebSocketDelegate {
    private let bridge: SyncBridge

    init(to bridge: SyncBridge) { self.bridge = bridge }

    func urlSession(_ session: URLSession, webSocketTask: URLSessionWebSocketTask, didOpenWithProtocol name: String?) {
        bridge.onConnected()
    }

    func urlSession(
        _ session: URLSession, webSocketTask: URLSessionWebSocketTask,
        didCloseWith closeCode: URLSessionWebSocketTask.CloseCode, reason: Data?
    ) {
        switch closeCode {
        case .normalClosure, .goingAway, .noStatusReceived: bridge.onDisconnected()
        default: bridge.onError("it was closed with code \(closeCode.rawValue)")
        }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        if let error { bridge.onError(error.localizedDescription) } else { bridge.onDisconnected() }
    }
}
