package import BundleTransport
import Synchronization

/// Receives announcements of new channel documents from a host, and starts checks of the feed (`SyncMessage`).
///
/// Announcements are not trusted: they only start a check, which verifies signatures. Without a connection, the device
/// finds updates by polling.
package struct ReleaseWatcher: Sendable {
    /// The events of a watch, for the log.
    package enum WatcherReport: Sendable, Equatable {
        /// A change of the connection.
        case link(LinkReport)
        /// The host announced this sequence, and a check begins.
        case announced(sequence: Int)
    }

    private let client: SyncClient
    private let channel: String
    private let clock: any Clock<Duration>
    private let known: @Sendable () async -> Int?
    private let check: @Sendable (_ isUrgent: Bool) async -> Void
    private let report: @Sendable (WatcherReport) -> Void

    /// Creates a watch of `channel`; `run` starts it.
    ///
    /// `known` returns the sequence of the last accepted document before each check, or nil for a flat manifest and
    /// before the first document. `check` checks the feed, soon if the announcement is urgent; calls do not overlap and
    /// have pauses between them. `random` sets the waits between connection attempts. The caller spreads the checks of
    /// a fleet.
    package init(
        _ configuration: SyncClient.Configuration, channel: String, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        known: @escaping @Sendable () async -> Int?, check: @escaping @Sendable (_ isUrgent: Bool) async -> Void,
        report: @escaping @Sendable (WatcherReport) -> Void
    ) {
        client = SyncClient(configuration, connector: connector, clock: clock, random: random)
        self.channel = channel
        self.clock = clock
        self.known = known
        self.check = check
        self.report = report
    }

    /// Watches until the task is cancelled, then closes the connection and ends all child tasks.
    package func run() async {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let (checked, checking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = ReleaseWatchState(channel, wanted: asking, checked: checking, reading: clock.reading(), report)
        async let checks: Void = checks(wanted, state)
        async let repetitions: Void = repetitions(checked, state)
        await client.run { state.receive($0) }
        asking.finish()
        checking.finish()
        await checks
        await repetitions
    }

    /// Repeats checks that may have received an old copy.
    private func repetitions(_ checked: AsyncStream<Void>, _ state: ReleaseWatchState) async {
        for await _ in checked {
            do { try await clock.sleep(for: AnnouncementTrigger.Pace().again) } catch { return }
            state.repeatCheck()
        }
    }

    /// Runs the checks one after another.
    private func checks(_ wanted: AsyncStream<Void>, _ state: ReleaseWatchState) async {
        for await _ in wanted {
            while let left = state.untilDue {
                do { try await clock.sleep(for: left) } catch { return }
                guard let sequence = state.decide(known: await known()) else { continue }
                report(.announced(sequence: sequence))
                await check(state.isUrgent)
                state.rest()
            }
        }
    }
}

/// The state of a watch, which its tasks share.
private final class ReleaseWatchState: Sendable {
    private struct Fields {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        var link = LinkEvent()
        /// Whether the last message was invalid. A series of invalid messages is reported once.
        var isUnreadable = false
    }

    private let channel: String
    private let fields = Mutex(Fields())
    private let wanted: AsyncStream<Void>.Continuation
    private let checked: AsyncStream<Void>.Continuation
    private let reading: @Sendable () -> Duration
    private let report: @Sendable (ReleaseWatcher.WatcherReport) -> Void

    init(
        _ channel: String, wanted: AsyncStream<Void>.Continuation, checked: AsyncStream<Void>.Continuation,
        reading: @escaping @Sendable () -> Duration,
        _ report: @escaping @Sendable (ReleaseWatcher.WatcherReport) -> Void
    ) {
        self.channel = channel
        self.wanted = wanted
        self.checked = checked
        self.reading = reading
        self.report = report
    }

    /// Processes an event of the connection.
    func receive(_ event: SyncEvent) {
        let event = fields.withLock { fields -> LinkReport? in
            switch event {
            case .connected:
                fields.trigger.connected()
                return fields.link.connected()
            case .lost(let error, _): return fields.link.lost("\(error)")
            case .text(let text): return receive(text, &fields)
            // Current hosts do not send binary messages.
            case .binary: return nil
            }
        }
        if let event { report(.link(event)) }
        if untilDue != nil { wanted.yield() }
    }

    private func receive(_ text: String, _ fields: inout Fields) -> LinkReport? {
        let message: SyncMessage
        do {
            message = try SyncMessage(parsing: text)
        } catch {
            defer { fields.isUnreadable = true }
            return fields.isUnreadable ? nil : .note("a message of the host was ignored: \(error)")
        }
        fields.isUnreadable = false
        if case .release(channel, let sequence, let isUrgent) = message {
            fields.trigger.receive(sequence, isUrgent: isUrgent)
        }
        return nil
    }

    /// The time until the next call of `decide`; nil if no check is due.
    var untilDue: Duration? { fields.withLock { $0.trigger.due }.map { max(.zero, $0 - reading()) } }

    func decide(known: Int?) -> Int? { fields.withLock { $0.trigger.decide(known: known) } }

    var isUrgent: Bool { fields.withLock { $0.trigger.isUrgent } }

    func rest() {
        let now = reading()
        fields.withLock { $0.trigger.rest(at: now) }
        checked.yield()
    }

    func repeatCheck() {
        fields.withLock { $0.trigger.repeatCheck() }
        wanted.yield()
    }
}
