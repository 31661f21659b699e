import BundleCore
import BundleTransport
import BundleValues

/// A DDP conversation with one server over any number of connections: it maps events to actions (METEOR sections 7.2 to
/// 7.5).
///
/// Times are durations since any fixed moment of the caller's clock.
struct DDPConversation: Sendable {
    enum DDPEvent: Sendable, Equatable {
        /// A connection attempt starts. The caller limits its time.
        case connecting
        case opened
        /// A text frame arrived.
        case received(String)
        /// A binary frame arrived, which has no meaning in DDP.
        case receivedBinary
        /// The socket failed to open or was closed.
        case closed
        /// The time of a `wake` action has come.
        case woken
    }

    enum DDPAction: Sendable, Equatable {
        case send(String)
        /// Send the `woken` event at this time. A new `wake` replaces an earlier one, and the end of the connection
        /// cancels it.
        case wake(at: Duration)
        /// The connection is closed for this reason.
        case lost(String)
        case close
        /// Send the `connecting` event after this wait.
        case reconnect(after: Duration)
        /// The server does not speak a known protocol, so the conversation ends.
        case giveUp(String)
        /// The server has sent all documents of the subscription.
        case ready
        /// The server now has this version. It also follows every `ready`.
        case versionChanged(MeteorVersion)
        /// A sentence for the log. The number per connection is limited.
        case log(String)
    }

    private enum DDPState: Sendable {
        case apart
        case connecting
        case greeting(until: Duration)
        case talking(DDPTalk)
    }

    private static let mostLogs = 20
    private static let mostUnreadable = 16

    private let appId: String?
    private let architecture: String
    private let environment: Environment
    private var state = DDPState.apart
    private var versions: ClientVersions
    private var told: String?
    private var proposed = DDPRequest.versions[0]
    private var refused: Set<String> = []
    private var losses = 0
    private var refusedSubscriptions = 0
    private var logs = 0
    private var unreadable = 0

    /// `architecture` is the watched client. `appId` selects the application; nil accepts any.
    init(appId: String?, architecture: String, environment: Environment) {
        self.appId = appId
        self.architecture = architecture
        self.environment = environment
        versions = ClientVersions(architecture: architecture)
    }

    /// Handles an event at the time `now`. Events that do not fit the present state are ignored.
    mutating func handle(_ event: DDPEvent, at now: Duration) -> [DDPAction] {
        switch (state, event) {
        case (.apart, .connecting): return begin()
        case (.apart, _): return []
        case (.connecting, .opened):
            let end = now + DDPTimers.connect
            state = .greeting(until: end)
            return [.send(DDPRequest.connect(version: proposed)), .wake(at: end)]
        case (.greeting, .received(let text)), (.talking, .received(let text)): return receive(text, at: now)
        case (.greeting, .receivedBinary), (.talking, .receivedBinary):
            recordActivity(at: now)
            return ignore("it is binary", at: now)
        case (_, .closed): return lose(at: now)
        case (.greeting(let end), .woken): return wait(until: end, at: now, for: "no DDP response within 10s")
        case (.talking(let talk), .woken): return wake(talk, at: now)
        default: return []
        }
    }

    // MARK: Beginning and end

    private mutating func begin() -> [DDPAction] {
        state = .connecting
        unreadable = 0
        return []
    }

    /// Handles the end of a connection. A connection with a long subscription was successful, which resets the waits.
    private mutating func lose(at now: Duration) -> [DDPAction] {
        if case .talking(let talk) = state, let since = talk.readySince, now - since >= DDPTimers.success {
            (losses, logs) = (0, 0)
        }
        state = .apart
        let wait = DDPTimers.reconnect.wait(losses: losses, environment.random)
        losses += 1
        return [.reconnect(after: wait)]
    }

    private mutating func drop(_ reason: String, at now: Duration) -> [DDPAction] {
        [.lost(reason), .close] + lose(at: now)
    }

    // MARK: Time

    private mutating func wait(until end: Duration, at now: Duration, for reason: String) -> [DDPAction] {
        now < end ? [.wake(at: end)] : drop(reason, at: now)
    }

    private mutating func wake(_ talk: DDPTalk, at now: Duration) -> [DDPAction] {
        var talk = talk
        var actions: [DDPAction] = []
        if let pinged = talk.pinged, now >= pinged + DDPTimers.answer {
            return drop("the server did not answer a ping", at: now)
        }
        if talk.pinged == nil, now >= talk.lastReceived + DDPTimers.idle {
            talk.pinged = now
            actions.append(.send(DDPRequest.ping))
        }
        if let moment = talk.subscribeAgain, now >= moment {
            talk.subscribeAgain = nil
            talk.subscription += 1
            actions.append(subscribe(talk))
        }
        state = .talking(talk)
        return actions + [.wake(at: talk.deadline)]
    }

    // MARK: Messages

    private mutating func receive(_ text: String, at now: Duration) -> [DDPAction] {
        recordActivity(at: now)
        let message: DDPMessage
        do throws(JSONError) {
            message = try DDPFrame.message(in: text)
        } catch {
            return ignore("\(error)", at: now)
        }
        switch message {
        case .ping(let id): return [.send(DDPRequest.pong(id: id))]
        case .error(let reason): return log("the server reports an error: \(Self.shown(reason))")
        case .connected: return greet(at: now)
        case .failed(let version): return refuse(version, at: now)
        case .ready, .noSubscription, .added, .changed, .removed: return handle(message, at: now)
        case .other: return []
        }
    }

    /// Any frame shows that the server is alive.
    private mutating func recordActivity(at now: Duration) {
        guard case .talking(var talk) = state else { return }
        talk.lastReceived = now
        talk.pinged = nil
        state = .talking(talk)
    }

    /// Ignores an unreadable frame. Closes the connection if there are many.
    private mutating func ignore(_ reason: String, at now: Duration) -> [DDPAction] {
        unreadable += 1
        if unreadable < Self.mostUnreadable { return log("a frame was ignored: \(reason)") }
        return drop("the server's frames are not DDP: \(reason)", at: now)
    }

    private mutating func greet(at now: Duration) -> [DDPAction] {
        guard case .greeting = state else { return [] }
        refused = []
        let talk = DDPTalk(lastReceived: now)
        state = .talking(talk)
        return [subscribe(talk)]
    }

    /// Handles a server that requires another version of DDP.
    private mutating func refuse(_ version: String, at now: Duration) -> [DDPAction] {
        guard case .greeting = state else { return [] }
        refused.insert(proposed)
        guard DDPRequest.versions.contains(version), !refused.contains(version) else {
            state = .apart
            return [
                .close, .giveUp("the server requires version \(Self.shown(version)) of DDP, which is not supported"),
            ]
        }
        proposed = version
        return drop("the server requires version \(version) of DDP", at: now)
    }

    private mutating func subscribe(_ talk: DDPTalk) -> DDPAction {
        versions.begin()
        return .send(DDPRequest.subscribe(id: String(talk.subscription), appId: appId))
    }

    /// Handles a message of a subscription.
    private mutating func handle(_ message: DDPMessage, at now: Duration) -> [DDPAction] {
        guard case .talking(var talk) = state else { return [] }
        switch message {
        case .ready(let subscriptions):
            guard subscriptions.contains(String(talk.subscription)), !versions.isReady else { return [] }
            talk.readySince = talk.readySince ?? now
            state = .talking(talk)
            return becomeReady()
        case .noSubscription(let id, let reason):
            guard id == String(talk.subscription), talk.subscribeAgain == nil else { return [] }
            refusedSubscriptions += 1
            let wait = DDPTimers.resubscribe.wait(losses: refusedSubscriptions, environment.random)
            talk.subscribeAgain = now + wait
            state = .talking(talk)
            return log("the server ended the subscription: \(Self.shown(reason))")
        case .added(let change) where change.collection == DDPRequest.clientVersions: versions.added(change)
        case .changed(let change) where change.collection == DDPRequest.clientVersions: versions.changed(change)
        case .removed(DDPRequest.clientVersions, let id): versions.removed(id)
        default: return []
        }
        return versionChanges()
    }

    private mutating func becomeReady() -> [DDPAction] {
        refusedSubscriptions = 0
        versions.ready()
        told = nil
        guard versions.current == nil else { return [.ready] + versionChanges() }
        return [.ready]
            + log(
                "the server reports no version for \(architecture) yet; if it never does, compare the appId with that of the server"
            )
    }

    /// Returns the version if it differs from the last reported one.
    private mutating func versionChanges() -> [DDPAction] {
        guard versions.isReady, versions.current != told else { return [] }
        told = versions.current
        guard let text = versions.current else { return [] }
        do throws(MeteorVersionError) {
            return [.versionChanged(try MeteorVersion(parsing: text))]
        } catch {
            return log("the server's version was ignored: \(error)")
        }
    }

    // MARK: Log messages

    private mutating func log(_ sentence: String) -> [DDPAction] {
        logs += 1
        return logs <= Self.mostLogs ? [.log(sentence)] : []
    }

    private static func shown(_ text: String?) -> String { text.map { UntrustedName.display($0) } ?? "no reason given" }
}

/// The state of a connection after the server's `connected`.
private struct DDPTalk: Sendable {
    /// The time of the last frame from the server.
    var lastReceived: Duration
    /// The time of an unanswered ping.
    var pinged: Duration?
    /// The number of the present subscription, from 1.
    var subscription = 1
    /// The time of the next attempt to subscribe.
    var subscribeAgain: Duration?
    /// The time at which the first subscription became ready.
    var readySince: Duration?

    /// The time of the next action without an event.
    var deadline: Duration {
        let silence = pinged.map { $0 + DDPTimers.answer } ?? lastReceived + DDPTimers.idle
        return min(silence, subscribeAgain ?? silence)
    }
}
