package import BundleValues

/// What happened to a device's sessions and locks, as `clientctl events` reports it.
package struct SessionEvent: Sendable, Equatable {
    /// What it was; the words stand in answers.
    package enum Kind: String, Sendable {
        /// The device was locked; `detail` is `locked` or `maintenance`.
        case locked
        /// The device was unlocked.
        case unlocked
        /// A user logged in.
        case loggedIn
        /// A session ended; `detail` is `signedOut`, `expired` or `rejected`.
        case loggedOut
    }

    /// What it was.
    package let kind: Kind
    /// When, where the record has that.
    package let at: Timestamp?
    /// More of it; nil where there is no more.
    package let detail: String?

    private init(_ kind: Kind, at: Timestamp? = nil, detail: String? = nil) {
        (self.kind, self.at, self.detail) = (kind, at, detail)
    }

    /// What led from the record `before`, at the time `earlier`, to the one `after`, at `time`. Pure.
    package static func between(
        _ before: SessionRecord, at earlier: Timestamp, _ after: SessionRecord, at time: Timestamp
    ) -> [SessionEvent] {
        var events: [SessionEvent] = []
        if let endings = after.endings(at: time), endings != before.endings(at: earlier) {
            events.append(SessionEvent(.loggedOut, at: endings.last, detail: cause(before, after, at: time).rawValue))
        }
        if let session = after.session, session.isValid(at: time),
            session.token != before.session?.token || session.since != before.session?.since
        {
            events.append(SessionEvent(.loggedIn, at: session.since))
        }
        if let lock = after.lock, lock != before.lock {
            events.append(SessionEvent(.locked, detail: lock.rawValue))
        }
        if after.lock == nil, before.lock != nil { events.append(SessionEvent(.unlocked)) }
        return events
    }

    private static func cause(
        _ before: SessionRecord, _ after: SessionRecord, at time: Timestamp
    ) -> SessionEnding.Cause {
        if case .ended(let ending) = after.access { return ending.cause }
        return before.session?.isValid(at: time) == true ? .signedOut : .expired
    }
}
