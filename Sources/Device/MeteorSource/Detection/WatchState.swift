import BundleCore
import BundleValues
import BundleTransport
import Synchronization

/// The conversation of a watch and its pending actions, shared by the tasks of the watch.
final class WatchState: Sendable {
    /// The reason why a connection ended.
    enum ConnectionEnd: Sendable, Equatable {
        case reconnect(after: Duration)
        case giveUp(String)
    }

    private struct WatchFields: Sendable {
        var conversation: DDPConversation
        var trigger: CheckTrigger
        var outbox: AsyncStream<String>.Continuation?
        var texts = AsyncStream<String> { $0.finish() }
        var alarm: Duration?
        var end: ConnectionEnd?
        var news = LinkEvent()
        /// Whether too many messages are waiting to be sent.
        var isStuck = false
    }

    /// The number of messages that may wait to be sent. A server that does not read them is disconnected.
    private static let mostUnsent = 64

    private let fields: Mutex<WatchFields>
    private let wanted: AsyncStream<Void>.Continuation
    private let stopwatch: Stopwatch
    private let report: @Sendable (LinkReport) -> Void

    init(
        conversation: DDPConversation, trigger: CheckTrigger, wanted: AsyncStream<Void>.Continuation,
        stopwatch: Stopwatch, report: @escaping @Sendable (LinkReport) -> Void
    ) {
        fields = Mutex(WatchFields(conversation: conversation, trigger: trigger))
        self.wanted = wanted
        self.stopwatch = stopwatch
        self.report = report
    }

    // MARK: The connection

    /// Starts a connection.
    func begin() {
        let (texts, outbox) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingOldest(Self.mostUnsent))
        fields.withLock { fields in
            (fields.texts, fields.outbox) = (texts, outbox)
            fields.end = nil
            fields.isStuck = false
        }
        handle(.connecting)
    }

    /// The messages to send on the connection.
    var texts: AsyncStream<String> { fields.withLock { $0.texts } }

    /// Handles an event and performs its actions.
    func handle(_ event: DDPConversation.DDPEvent) {
        let now = stopwatch.elapsed
        let reports = fields.withLock { fields in
            var reports = Self.perform(fields.conversation.handle(event, at: now), on: &fields, at: now)
            if fields.isStuck, fields.end == nil {
                reports += Self.perform([.lost("the server stopped reading")], on: &fields, at: now)
                reports += Self.perform(fields.conversation.handle(.closed, at: now), on: &fields, at: now)
            }
            return reports
        }
        for told in reports { report(told) }
        if untilDue != nil { wanted.yield() }
    }

    /// The socket failed to open or was lost for this reason. If the conversation closed it, its own reason counts.
    func lose(_ reason: String) {
        let told = fields.withLock { $0.end == nil ? $0.news.lost(reason) : nil }
        if let told { report(told) }
        handle(.closed)
    }

    /// The time until `woken` must be sent; nil after the end of the connection.
    var untilAlarm: Duration? { left(until: fields.withLock { $0.alarm }) }

    /// The reason why the connection ended; nil while it is open.
    var end: ConnectionEnd? { fields.withLock { $0.end } }

    /// Performs the actions that do not wait, and returns the reports.
    private static func perform(
        _ actions: [DDPConversation.DDPAction], on fields: inout WatchFields, at now: Duration
    ) -> [LinkReport] {
        var reports: [LinkReport?] = []
        for action in actions {
            switch action {
            case .send(let text):
                if case .dropped? = fields.outbox?.yield(text) { fields.isStuck = true }
            case .wake(let moment): fields.alarm = moment
            case .lost(let reason): reports.append(fields.news.lost(reason))
            case .close: fields.outbox?.finish()
            case .reconnect(let wait): finish(.reconnect(after: wait), in: &fields)
            case .giveUp(let reason): finish(.giveUp(reason), in: &fields)
            case .ready:
                fields.trigger.subscribed()
                reports.append(fields.news.connected())
            case .versionChanged(let version): fields.trigger.state(version, at: now)
            case .log(let sentence): reports.append(.note(sentence))
            }
        }
        return reports.compactMap(\.self)
    }

    private static func finish(_ end: ConnectionEnd, in fields: inout WatchFields) {
        fields.outbox?.finish()
        fields.end = end
        fields.alarm = nil
    }

    // MARK: Checks

    /// The time until `decide` must be called; nil if there is nothing to decide.
    var untilDue: Duration? { left(until: fields.withLock { $0.trigger.due }) }

    private func left(until moment: Duration?) -> Duration? { moment.map { max(.zero, $0 - stopwatch.elapsed) } }

    /// Decides about the latest reported version.
    func decide(running: MeteorVersion?) -> CheckTrigger.CheckDecision {
        let now = stopwatch.elapsed
        return fields.withLock { $0.trigger.decide(running: running, at: now) }
    }

    /// No more versions will be reported.
    func finish() { wanted.finish() }
}
