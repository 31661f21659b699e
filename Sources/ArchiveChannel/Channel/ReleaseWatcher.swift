import BundleCore
public import BundlePush
import Synchronization

/// Hears from a host at once when a channel has another document, and has the feed looked at (`SyncMessage`).
///
/// What is said carries no trust: it is a reason to look, and the look believes signatures only. Where no connection can be had,
/// updates are found by checking from time to time.
public struct ReleaseWatcher: Sendable {
    /// What the device knows when something is announced.
    public struct Known: Sendable, Equatable {
        /// The sequence of the document that it took last; nil before the first, and for a flat manifest.
        public var sequence: Int?
        /// The longest random wait before a check, as that document sets it: it spreads a fleet's requests.
        public var jitter: Duration

        /// States what is known.
        public init(sequence: Int?, jitter: Duration = .zero) {
            self.sequence = sequence
            self.jitter = jitter
        }
    }

    /// What people may want to hear.
    public enum Report: Sendable, Equatable {
        /// Something about the connection, once for each change.
        case link(LinkReport)
        /// The host says that the channel has this sequence, and it is checked for.
        case heard(sequence: Int)
    }

    private let client: SyncClient
    private let channel: String
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let known: @Sendable () async -> Known
    private let hear: @Sendable (Duration) async -> Void
    private let report: @Sendable (Report) -> Void

    /// A watch of `channel` that has not begun.
    ///
    /// `known` is asked before each check. `hear` is told after which random wait to check, one call at a time: the next one comes
    /// no earlier than that wait and a pause later. `random` draws from a range.
    public init(
        _ configuration: SyncClient.Configuration, channel: String, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        known: @escaping @Sendable () async -> Known, hear: @escaping @Sendable (Duration) async -> Void,
        report: @escaping @Sendable (Report) -> Void
    ) {
        client = SyncClient(configuration, connector: connector, clock: clock, random: random)
        self.channel = channel
        self.clock = clock
        self.random = random
        self.known = known
        self.hear = hear
        self.report = report
    }

    /// Watches until the task is cancelled; leaves nothing running, and no connection open.
    public func run() async {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = ReleaseWatchState(channel, wanted: asking, reading: Self.reading(of: clock), report)
        async let checking: Void = checks(wanted, state)
        await client.run { state.take($0) }
        asking.finish()
        await checking
    }

    /// One check after the other.
    private func checks(_ wanted: AsyncStream<Void>, _ state: ReleaseWatchState) async {
        for await _ in wanted {
            while let left = state.untilDue {
                do { try await clock.sleep(for: left) } catch { return }
                let known = await known()
                guard let sequence = state.decide(known: known.sequence) else { continue }
                report(.heard(sequence: sequence))
                let wait = max(known.jitter, .zero) * random(0...1)
                await hear(wait)
                do { try await clock.sleep(for: wait) } catch { return }
                state.rest()
            }
        }
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}

/// What a watch has heard; shared by its tasks.
private final class ReleaseWatchState: Sendable {
    private struct Fields {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        var news = LinkNews()
        /// Whether the last message could not be read, which is told once.
        var isUnreadable = false
    }

    private let channel: String
    private let fields = Mutex(Fields())
    private let wanted: AsyncStream<Void>.Continuation
    private let reading: @Sendable () -> Duration
    private let report: @Sendable (ReleaseWatcher.Report) -> Void

    init(
        _ channel: String, wanted: AsyncStream<Void>.Continuation, reading: @escaping @Sendable () -> Duration,
        _ report: @escaping @Sendable (ReleaseWatcher.Report) -> Void
    ) {
        self.channel = channel
        self.wanted = wanted
        self.reading = reading
        self.report = report
    }

    /// Takes in what the connection tells.
    func take(_ event: SyncEvent) {
        let told = fields.withLock { fields -> LinkReport? in
            switch event {
            case .connected:
                fields.trigger.connected()
                return fields.news.connected()
            case .lost(let error, _): return fields.news.lost("\(error)")
            case .text(let text): return hear(text, &fields)
            // No host sends any; a later one may.
            case .binary: return nil
            }
        }
        if let told { report(.link(told)) }
        if untilDue != nil { wanted.yield() }
    }

    private func hear(_ text: String, _ fields: inout Fields) -> LinkReport? {
        let message: SyncMessage
        do {
            message = try SyncMessage(parsing: text)
        } catch {
            defer { fields.isUnreadable = true }
            return fields.isUnreadable ? nil : .note("a message of the host was ignored: \(error)")
        }
        fields.isUnreadable = false
        if case .release(channel, let sequence) = message { fields.trigger.hear(sequence) }
        return nil
    }

    /// The time left until `decide` is to be called; nil while nothing waits for it.
    var untilDue: Duration? { fields.withLock { $0.trigger.due }.map { max(.zero, $0 - reading()) } }

    func decide(known: Int?) -> Int? { fields.withLock { $0.trigger.decide(known: known) } }

    func rest() {
        let now = reading()
        fields.withLock { $0.trigger.rest(at: now) }
    }
}
