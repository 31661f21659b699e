import BundleTransport
import Synchronization

/// An owner of sockets like an Apple shell, whose sockets are pairs in memory.
final class SocketOwner: WebSocketDelegate {
    enum Behaviour: Sendable { case opens, fails, hangs }

    private struct Owned {
        var near: PairEnd
        var reading: Task<Void, Never>
    }

    private let owned = Mutex<Owned?>(nil)
    private let behaviour: Behaviour
    private let ends: AsyncStream<PairEnd>.Continuation
    /// The other ends of the sockets in order.
    let opened: AsyncStream<PairEnd>
    private let bridges = Mutex<[SyncBridge]>([])
    private let closings = Mutex(0)

    init(_ behaviour: Behaviour = .opens) {
        self.behaviour = behaviour
        (opened, ends) = AsyncStream.makeStream()
    }

    /// The bridges in the order of their sockets.
    var given: [SyncBridge] { bridges.withLock { $0 } }

    /// The number of calls to close.
    var closed: Int { closings.withLock { $0 } }

    func openWebSocket(_ url: SocketURL, reportingTo bridge: SyncBridge) {
        bridges.withLock { $0.append(bridge) }
        switch behaviour {
        case .hangs: return
        case .fails: return bridge.onError("nobody is there")
        case .opens: break
        }
        let (near, far) = PairEnd.make()
        let reading = Task {
            do {
                while let message = try await near.receive() {
                    switch message {
                    case .text(let text): await bridge.onTextMessage(text)
                    case .binary(let bytes): await bridge.onBinaryMessage(bytes)
                    case .pong: bridge.onPong()
                    }
                }
                bridge.onDisconnected()
            } catch {
                bridge.onError("\(error)")
            }
        }
        owned.withLock { $0 = Owned(near: near, reading: reading) }
        bridge.onConnected()
        ends.yield(far)
    }

    private var near: PairEnd {
        get throws {
            guard let near = owned.withLock({ $0?.near }) else { throw TransportError.isClosed }
            return near
        }
    }

    func sendBinary(_ bytes: [UInt8]) async throws { try await near.sendBinary(bytes) }

    func sendText(_ text: String) async throws { try await near.sendText(text) }

    func sendPing() async throws { try await near.sendPing() }

    func closeWebSocket() async {
        closings.withLock { $0 += 1 }
        let last = owned.withLock { owned in
            defer { owned = nil }
            return owned
        }
        last?.reading.cancel()
        await last?.near.close()
    }
}
