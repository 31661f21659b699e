package import BundleValues

/// A change of a device's session or lock, as `clientctl events` reports it.
package struct SessionEvent: Sendable, Equatable {
    /// The kind of event. The raw values are part of the output format.
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

    package let kind: Kind
    /// The time of the event; nil if it is not recorded.
    package let at: Timestamp?
    /// Details of the event; nil if there are none.
    package let detail: String?

    private init(_ kind: Kind, at: Timestamp? = nil, detail: String? = nil) {
        (self.kind, self.at, self.detail) = (kind, at, detail)
    }

    /// Returns the events between the record `before` at the time `earlier` and the record `after` at `time`.
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
    ) -> SessionEnding.EndingCause {
        if case .ended(let ending) = after.access { return ending.cause }
        return before.session?.isValid(at: time) == true ? .signedOut : .expired
    }
}
