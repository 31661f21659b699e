package import BundleTransport
package import BundleValues
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

/// Decides when an announcement leads to a check (Decisions/guard.md). Times count from an arbitrary start.
///
/// An announcement is not trusted: it can only make a device check its feed, at a limited rate. A check that does not
/// reach the announced sequence is repeated once, because the network may have failed or a cache may have been older
/// than the host. The repetition follows the next connection, or a pause in which caches expire.
struct AnnouncementTrigger {
    /// The pauses between checks.
    struct Pace: Sendable, Equatable {
        var apart = Duration.seconds(1)
        /// The longest pause. The pause doubles after each check without effect.
        var longest = Duration.seconds(300)
        /// The pause before a repeated check, longer than caches keep a document (30 s).
        var again = Duration.seconds(60)
    }

    private static let mostChecks = 2

    private let pace: Pace
    private var announced: Int?
    /// Whether the last announcement is urgent.
    private(set) var isUrgent = false
    private var isNewConnection = false
    private var isOpen = false
    private var earliest = Duration.zero
    private var checked: (sequence: Int, known: Int?, times: Int)?
    private var fruitless = 0

    init(pace: Pace) { self.pace = pace }

    /// Notes a new connection, after which a repeated announcement leads to a check again.
    mutating func connected() { isNewConnection = true }

    /// Accepts an announcement of `sequence`.
    mutating func receive(_ sequence: Int, isUrgent: Bool = false) {
        guard isNewConnection || sequence != announced else { return }
        isNewConnection = false
        announced = sequence
        self.isUrgent = isUrgent
        isOpen = true
    }

    /// Repeats the last check if it did not reach the announced sequence.
    mutating func repeatCheck() { isOpen = announced != nil }

    /// The time of the next call of `decide`; nil if no check is due.
    var due: Duration? { isOpen ? earliest : nil }

    /// Returns the sequence to check for, or nil. `known` is the sequence of the last accepted document.
    mutating func decide(known: Int?) -> Int? {
        isOpen = false
        // An announcement of the known sequence does not reset the pause either.
        guard let announced, announced != known else { return nil }
        let isFruitless = checked.map { $0.known == known } ?? false
        var times = 0
        if let checked, isFruitless, checked.sequence == announced { times = checked.times }
        guard times < Self.mostChecks else { return nil }
        fruitless = isFruitless ? fruitless + 1 : 0
        checked = (announced, known, times + 1)
        return announced
    }

    /// Starts the pause after a check at `now`.
    mutating func rest(at now: Duration) {
        earliest = now + Backoff(from: pace.apart, upTo: pace.longest).delay(after: fruitless)
    }
}
