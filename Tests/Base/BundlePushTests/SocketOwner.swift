import BundlePush
import Synchronization

/// Owns sockets as an Apple shell does, only that they are ends of pairs in memory.
final class SocketOwner: WebSocketDelegate {
    enum Behaviour: Sendable { case opens, fails, hangs }

    private struct Owned {
        var near: PairEnd
        var reading: Task<Void, Never>
    }

    private let owned = Mutex<Owned?>(nil)
    private let behaviour: Behaviour
    private let ends: AsyncStream<PairEnd>.Continuation
    /// The other ends, as they are opened.
    let opened: AsyncStream<PairEnd>
    private let bridges = Mutex<[SyncBridge]>([])
    private let closings = Mutex(0)

    init(_ behaviour: Behaviour = .opens) {
        self.behaviour = behaviour
        (opened, ends) = AsyncStream.makeStream()
    }

    /// The bridges it was given, in order.
    var given: [SyncBridge] { bridges.withLock { $0 } }

    /// How often it was told to close.
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
