import BundleCore
import BundleValues
import BundlePush
import Synchronization

/// The conversation of a watch and what it has asked for; shared by the watch's tasks.
final class WatchState: Sendable {
    /// How a connection ended.
    enum End: Sendable, Equatable {
        case reconnect(after: Duration)
        case giveUp(String)
    }

    private struct Fields: Sendable {
        var conversation: DDPConversation
        var trigger: CheckTrigger
        var outbox: AsyncStream<String>.Continuation?
        var texts = AsyncStream<String> { $0.finish() }
        var alarm: Duration?
        var end: End?
        var news = LinkEvent()
        /// Whether there was too much to send.
        var isStuck = false
    }

    /// Texts that wait for being sent; a server that does not take them is left.
    private static let mostUnsent = 64

    private let fields: Mutex<Fields>
    private let wanted: AsyncStream<Void>.Continuation
    private let reading: @Sendable () -> Duration
    private let report: @Sendable (LinkReport) -> Void

    init(
        _ conversation: DDPConversation, _ trigger: CheckTrigger, wanted: AsyncStream<Void>.Continuation,
        reading: @escaping @Sendable () -> Duration, report: @escaping @Sendable (LinkReport) -> Void
    ) {
        fields = Mutex(Fields(conversation: conversation, trigger: trigger))
        self.wanted = wanted
        self.reading = reading
        self.report = report
    }

    // MARK: The connection

    /// Begins a connection.
    func begin() {
        let (texts, outbox) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingOldest(Self.mostUnsent))
        fields.withLock { fields in
            (fields.texts, fields.outbox) = (texts, outbox)
            fields.end = nil
            fields.isStuck = false
        }
        handle(.connecting)
    }

    /// What the connection has to send, as it comes.
    var texts: AsyncStream<String> { fields.withLock { $0.texts } }

    /// Takes in an event, and does what it leads to.
    func handle(_ event: DDPConversation.Event) {
        let now = reading()
        let reports = fields.withLock { fields in
            var reports = Self.take(fields.conversation.handle(event, at: now), &fields, now)
            if fields.isStuck, fields.end == nil {
                reports += Self.take([.lost("it takes nothing from its connection")], &fields, now)
                reports += Self.take(fields.conversation.handle(.closed, at: now), &fields, now)
            }
            return reports
        }
        for told in reports { report(told) }
        if untilDue != nil { wanted.yield() }
    }

    /// The socket is gone, or could not be opened, for this reason; one that the conversation gave up went for a reason of its own.
    func lose(_ reason: String) {
        let told = fields.withLock { $0.end == nil ? $0.news.lost(reason) : nil }
        if let told { report(told) }
        handle(.closed)
    }

    /// The time left until `woken` is to be sent; nil when the connection is over.
    var untilAlarm: Duration? { left(until: fields.withLock { $0.alarm }) }

    /// How the connection ended; nil while it has not.
    var end: End? { fields.withLock { $0.end } }

    /// Does what can be done at once, and gives what people are to be told.
    private static func take(
        _ actions: [DDPConversation.Action], _ fields: inout Fields, _ now: Duration
    ) -> [LinkReport] {
        var reports: [LinkReport?] = []
        for action in actions {
            switch action {
            case .send(let text):
                if case .dropped? = fields.outbox?.yield(text) { fields.isStuck = true }
            case .wake(let moment): fields.alarm = moment
            case .lost(let reason): reports.append(fields.news.lost(reason))
            case .close: fields.outbox?.finish()
            case .reconnect(let wait): finish(.reconnect(after: wait), &fields)
            case .giveUp(let reason): finish(.giveUp(reason), &fields)
            case .ready:
                fields.trigger.subscribed()
                reports.append(fields.news.connected())
            case .versionChanged(let version): fields.trigger.state(version, at: now)
            case .log(let sentence): reports.append(.note(sentence))
            }
        }
        return reports.compactMap(\.self)
    }

    private static func finish(_ end: End, _ fields: inout Fields) {
        fields.outbox?.finish()
        fields.end = end
        fields.alarm = nil
    }

    // MARK: Checks

    /// The time left until `decide` is to be called; nil while no version waits for it.
    var untilDue: Duration? { left(until: fields.withLock { $0.trigger.due }) }

    private func left(until moment: Duration?) -> Duration? { moment.map { max(.zero, $0 - reading()) } }

    /// Decides about the version stated last.
    func decide(running: MeteorVersion?) -> CheckTrigger.Answer {
        let now = reading()
        return fields.withLock { $0.trigger.decide(running: running, at: now) }
    }

    /// No version will be stated any more.
    func finish() { wanted.finish() }
}
