package import BundlePush
import Synchronization

/// Hears from a host at once when a channel has another document, and has the feed looked at (`SyncMessage`).
///
/// What is said carries no trust: it is a reason to look, and the look believes signatures only. Where no connection can be had,
/// updates are found by checking from time to time.
package struct ReleaseWatcher: Sendable {
    /// What people may want to hear.
    package enum Report: Sendable, Equatable {
        /// Something about the connection, once for each change.
        case link(LinkReport)
        /// The host says that the channel has this sequence, and it is checked for.
        case heard(sequence: Int)
    }

    private let client: SyncClient
    private let channel: String
    private let clock: any Clock<Duration>
    private let known: @Sendable () async -> Int?
    private let check: @Sendable (_ isUrgent: Bool) async -> Void
    private let report: @Sendable (Report) -> Void

    /// A watch of `channel` that has not begun.
    ///
    /// `known` gives the sequence of the document that the device took last, nil before the first and for a flat manifest; it is
    /// asked before each check. `check` has the feed looked at, soon where the host calls it urgent, one call at a time, with a pause behind each; spreading a fleet's
    /// checks is its matter. `random` draws the waits before connecting again.
    package init(
        _ configuration: SyncClient.Configuration, channel: String, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        known: @escaping @Sendable () async -> Int?, check: @escaping @Sendable (_ isUrgent: Bool) async -> Void,
        report: @escaping @Sendable (Report) -> Void
    ) {
        client = SyncClient(configuration, connector: connector, clock: clock, random: random)
        self.channel = channel
        self.clock = clock
        self.known = known
        self.check = check
        self.report = report
    }

    /// Watches until the task is cancelled; leaves nothing running, and no connection open.
    package func run() async {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = ReleaseWatchState(channel, wanted: asking, reading: clock.reading(), report)
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
                guard let sequence = state.decide(known: await known()) else { continue }
                report(.heard(sequence: sequence))
                await check(state.isUrgent)
                state.rest()
            }
        }
    }
}

/// What a watch has heard; shared by its tasks.
private final class ReleaseWatchState: Sendable {
    private struct Fields {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        var news = LinkEvent()
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
        if case .release(channel, let sequence, let isUrgent) = message {
            fields.trigger.hear(sequence, isUrgent: isUrgent)
        }
        return nil
    }

    /// The time left until `decide` is to be called; nil while nothing waits for it.
    var untilDue: Duration? { fields.withLock { $0.trigger.due }.map { max(.zero, $0 - reading()) } }

    func decide(known: Int?) -> Int? { fields.withLock { $0.trigger.decide(known: known) } }

    var isUrgent: Bool { fields.withLock { $0.trigger.isUrgent } }

    func rest() {
        let now = reading()
        fields.withLock { $0.trigger.rest(at: now) }
    }
}
