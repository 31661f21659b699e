import BundlePush
import BundleTesting
import Synchronization

/// Runs a client, and notes what it tells.
final class Listener: Sendable {
    let clock = ManualClock()
    /// What it told, as it comes.
    let events: AsyncStream<SyncEvent>
    private let told: AsyncStream<SyncEvent>.Continuation
    private let running: Mutex<Task<Void, Never>?>

    static func configuration() throws -> SyncClient.Configuration {
        SyncClient.Configuration(url: try SocketURL(parsing: "ws://host/push"))
    }

    /// `draw` is what every random draw gives; `work` is done for each event before it counts as told.
    init(
        _ connector: any TransportConnector, draw: Double = 1, _ configuration: SyncClient.Configuration? = nil,
        work: @escaping @Sendable (SyncEvent) async -> Void = { _ in }
    ) throws {
        (events, told) = AsyncStream.makeStream()
        running = Mutex(nil)
        let client = SyncClient(
            try configuration ?? Self.configuration(), connector: connector, clock: clock, random: { _ in draw })
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

    /// Cancels it and waits until it has ended.
    func stop() async {
        let task = running.withLock { $0 }
        task?.cancel()
        await task?.value
    }
}
