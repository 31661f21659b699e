package import BundleValues
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
    private let environment: Environment

    /// Creates a watch of `channel`. Randomness sets the waits between connection attempts. The caller spreads the checks
    /// of a fleet.
    package init(
        _ configuration: SyncClient.Configuration, channel: String, connector: any TransportConnector,
        environment: Environment = Environment()
    ) {
        client = SyncClient(configuration, connector: connector, environment: environment)
        self.channel = channel
        self.environment = environment
    }

    /// Watches until the task is cancelled, then closes the connection and ends all child tasks.
    ///
    /// `known` returns the sequence of the last accepted document before each check, or nil for a flat manifest and
    /// before the first document. `check` checks the feed, soon if the announcement is urgent; calls do not overlap and
    /// have pauses between them.
    package func run(
        known: @escaping @Sendable () async -> Int?, check: @escaping @Sendable (_ isUrgent: Bool) async -> Void,
        report: @escaping @Sendable (WatcherReport) -> Void
    ) async {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let (checked, checking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = ReleaseWatchState(
            channel, wanted: asking, checked: checking, stopwatch: Stopwatch(environment.clock), report: report)
        async let checks: Void = {
            for await _ in wanted { await runChecks(state, known: known, check: check) }
        }()
        async let repetitions: Void = repetitions(on: checked, of: state)
        await client.run { state.receive($0) }
        asking.finish()
        checking.finish()
        await checks
        await repetitions
    }

    /// Repeats checks that may have received an old copy.
    private func repetitions(on checked: AsyncStream<Void>, of state: ReleaseWatchState) async {
        for await _ in checked {
            do { try await environment.clock.sleep(for: AnnouncementTrigger.Pace().again) } catch { return }
            state.repeatCheck()
        }
    }

    /// Runs the due checks one after another.
    private func runChecks(
        _ state: ReleaseWatchState, known: @Sendable () async -> Int?, check: @Sendable (_ isUrgent: Bool) async -> Void
    ) async {
        while let left = state.untilDue {
            do { try await environment.clock.sleep(for: left) } catch { return }
            guard let sequence = state.decide(known: await known()) else { continue }
            state.report(.announced(sequence: sequence))
            await check(state.isUrgent)
            state.rest()
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
    private let stopwatch: Stopwatch
    let report: @Sendable (ReleaseWatcher.WatcherReport) -> Void

    init(
        _ channel: String, wanted: AsyncStream<Void>.Continuation, checked: AsyncStream<Void>.Continuation,
        stopwatch: Stopwatch, report: @escaping @Sendable (ReleaseWatcher.WatcherReport) -> Void
    ) {
        self.channel = channel
        self.wanted = wanted
        self.checked = checked
        self.stopwatch = stopwatch
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
            case .text(let text): return receive(text, fields: &fields)
            // Current hosts do not send binary messages.
            case .binary: return nil
            }
        }
        if let event { report(.link(event)) }
        if untilDue != nil { wanted.yield() }
    }

    private func receive(_ text: String, fields: inout Fields) -> LinkReport? {
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
    var untilDue: Duration? { fields.withLock { $0.trigger.due }.map { max(.zero, $0 - stopwatch.elapsed) } }

    func decide(known: Int?) -> Int? { fields.withLock { $0.trigger.decide(known: known) } }

    var isUrgent: Bool { fields.withLock { $0.trigger.isUrgent } }

    func rest() {
        let now = stopwatch.elapsed
        fields.withLock { $0.trigger.rest(at: now) }
        checked.yield()
    }

    func repeatCheck() {
        fields.withLock { $0.trigger.repeatCheck() }
        wanted.yield()
    }
}
