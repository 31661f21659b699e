import BundleTransport
import BundleTesting
import BundleValues
import Synchronization

/// Runs a client and records its events.
final class Listener: Sendable {
    let clock = ManualClock()
    /// The events in order.
    let events: AsyncStream<SyncEvent>
    private let told: AsyncStream<SyncEvent>.Continuation
    private let running: Mutex<Task<Void, Never>?>

    static func configuration() throws -> SyncClient.Configuration {
        SyncClient.Configuration(url: try SocketURL(parsing: "ws://host/push"))
    }

    /// `draw` is the result of every random number; `work` runs for each event before it is recorded.
    init(
        _ connector: any TransportConnector, draw: Double = 1, _ configuration: SyncClient.Configuration? = nil,
        work: @escaping @Sendable (SyncEvent) async -> Void = { _ in }
    ) throws {
        (events, told) = AsyncStream.makeStream()
        running = Mutex(nil)
        let client = SyncClient(
            try configuration ?? Self.configuration(), connector: connector,
            environment: Environment(clock: clock, random: { _ in draw }))
        let told = told
        let task = Task {
            await client.run { event in
                await work(event)
                told.yield(event)
            }
            told.finish()
        }
        running.withLock { $0 = task }
    }

    /// Cancels the client and waits until it ends.
    func stop() async {
        let task = running.withLock { $0 }
        task?.cancel()
        await task?.value
    }
}
