public import BundleFetch
import BundleCore
public import BundleValues

/// The session of a user: its token and its validity.
public struct UserSession: Sendable, Equatable {
    /// The token that is sent to the feed's server.
    public let token: AccessToken
    /// The time of the login.
    public let since: Timestamp
    /// The end of its validity, exclusive; nil if only the server decides.
    public let expires: Timestamp?

    /// Creates a session.
    public init(token: AccessToken, since: Timestamp, expires: Timestamp?) {
        self.token = token
        self.since = since
        self.expires = expires
    }

    /// Returns whether the session is valid at `time`.
    public func isValid(at time: Timestamp) -> Bool { expires.map { time < $0 } ?? true }
}

/// The record of a device's sessions and lock, with its permitted changes.
public struct SessionRecord: Sendable, Equatable {
    /// The requirement to sign in, and the present session.
    public enum Access: Sendable, Equatable {
        /// No user has ever signed in: the device requires no session.
        case open
        /// A user is signed in.
        case session(UserSession)
        /// The session of a user has ended.
        case ended(SessionEnding)
    }

    /// The requirement to sign in, and the present session.
    public private(set) var access: Access
    /// The lock of the device; nil if it is unlocked.
    public private(set) var lock: SessionLock?
    /// The sessions that have ended; nil if there are none. The next user must not see the data of their users.
    public private(set) var endings: SessionEndings?

    /// The consecutive rejections of the session's token; nil if there are none.
    public private(set) var rejections: SessionRejections?

    /// The record of a device that requires no session.
    public static let open = SessionRecord(access: .open, lock: nil)

    /// Creates a record from a saved one.
    public init(
        access: Access, lock: SessionLock?, endings: SessionEndings? = nil, rejections: SessionRejections? = nil
    ) {
        self.access = access
        self.lock = lock
        self.endings = endings
        self.rejections = rejections
        // At least one session has ended, even if the saved record does not count it.
        if case .ended(let ending) = access, endings == nil { self.endings = SessionEndings(count: 1, last: ending.at) }
    }

    /// Returns the ended sessions at `time`, including an expired session that has not been removed yet.
    public func endings(at time: Timestamp) -> SessionEndings? {
        guard let session, !session.isValid(at: time) else { return endings }
        return SessionEndings(after: endings, of: session, at: time)
    }

    /// The present session, valid or not.
    public var session: UserSession? { if case .session(let session) = access { session } else { nil } }

    /// Whether the device requires a session.
    public var isRequired: Bool { access != .open }

    /// Returns the status at `time`. A lock takes precedence over the session, so it is not released by waiting.
    public func status(at time: Timestamp) -> SessionStatus {
        if let lock { return .locked(lock) }
        return switch access {
        case .open: .notRequired
        case .session(let session) where session.isValid(at: time): .authenticated
        case .session: .unauthenticated(.ended(.expired))
        case .ended(let ending): .unauthenticated(.ended(ending.cause))
        }
    }

    /// Returns whether the session should be renewed automatically: it ends within `lead` seconds, its token is
    /// rejected, or it ended without a logout.
    package func wantsRenewal(at time: Timestamp, lead: Int) -> Bool {
        switch access {
        case .open: false
        case .session(let session):
            rejections != nil || !session.isValid(at: Timestamp(clamping: time.secondsSinceEpoch + lead))
        case .ended(let ending): ending.cause != .signedOut
        }
    }

    /// Starts a session, and ends the one of another user. A locked device stays locked.
    public mutating func signIn(_ session: UserSession) {
        endings = endings(at: session.since)
        access = .session(session)
        rejections = nil
    }

    /// Ends the present session, if there is one.
    public mutating func signOut(at time: Timestamp) {
        if let session { close(session, SessionEnding(.signedOut, at: time)) }
    }

    private mutating func close(_ session: UserSession, _ ending: SessionEnding) {
        access = .ended(ending)
        rejections = nil
        endings = SessionEndings(after: endings, of: session, at: ending.at)
    }

    /// Ends the present session, and removes the requirement to sign in.
    public mutating func forget(at time: Timestamp) {
        signOut(at: time)
        access = .open
    }

    /// Ends `session`, unless another one has replaced it.
    public mutating func end(_ session: UserSession, _ ending: SessionEnding) {
        if self.session == session { close(session, ending) }
    }

    /// Records that the feed's server rejected the token of `session` at `time`, which may end it
    /// (`SessionRejections`). Nothing changes if another session has replaced it.
    public mutating func reject(_ session: UserSession, at time: Timestamp) {
        guard self.session == session else { return }
        switch SessionRejections.outcome(at: time, after: rejections) {
        case .sessionContinues(let all): rejections = all
        case .sessionEnds: close(session, SessionEnding(.rejected, at: time))
        }
    }

    /// Records that the feed's server accepted the token of `session`.
    public mutating func accept(_ session: UserSession) {
        if self.session == session { rejections = nil }
    }

    /// Locks the device.
    public mutating func lock(_ lock: SessionLock) { self.lock = lock }

    /// Unlocks the device.
    public mutating func unlock() { lock = nil }
}

/// The sessions that have ended. Two values differ if another session has ended in between.
public struct SessionEndings: Sendable, Equatable {
    /// The number of sessions.
    public let count: Int
    /// The end of the last session. It distinguishes a count that was restarted.
    public let last: Timestamp

    /// Creates a count of sessions.
    public init(count: Int, last: Timestamp) {
        self.count = count
        self.last = last
    }

    /// Adds `session`, which was found expired at `time` and ended at its own time.
    init(after before: SessionEndings?, of session: UserSession, at time: Timestamp) {
        self.init(count: (before?.count ?? 0) + 1, last: min(session.expires ?? time, time))
    }

    /// A unique name of letters, digits and a hyphen.
    public var name: String { "\(count)-\(last.secondsSinceEpoch)" }
}

/// The storage of a device's session record.
public protocol SessionRepository: Sendable {
    /// Returns the record; `SessionRecord.open` if there is none. Throws if it is unreadable.
    func record() async throws -> SessionRecord

    /// Changes the record atomically and returns the new one, which is durable.
    ///
    /// Concurrent changes are not lost. A failure changes nothing.
    @discardableResult
    func change(_ body: @Sendable (inout SessionRecord) -> Void) async throws -> SessionRecord
}

/// The status of a session at one moment.
public enum SessionStatus: Sendable, Equatable {
    /// The device requires no session.
    case notRequired
    /// There is a valid session.
    case authenticated
    /// There is no valid session.
    case unauthenticated(LockReason)
    /// The device is locked, with or without a session.
    case locked(SessionLock)

    /// The reason why there is no session.
    public enum LockReason: Sendable, Equatable {
        /// The session ended.
        case ended(SessionEnding.EndingCause)
        /// The record is unreadable, so no user is admitted.
        case unreadable
    }
}

/// The reason of a lock.
public enum SessionLock: String, Sendable, Equatable, CaseIterable {
    /// An operator locked the device.
    case byOperator = "locked"
    /// An operator is servicing the device.
    case forMaintenance = "maintenance"
}

/// The end of a session.
public struct SessionEnding: Sendable, Equatable {
    /// The cause of the end.
    public enum EndingCause: String, Sendable, Equatable, CaseIterable {
        /// The user signed out.
        case signedOut
        /// The session expired.
        case expired
        /// The feed's server rejected its token.
        case rejected
    }

    /// The cause of the end.
    public let cause: EndingCause
    /// The time at which the end was noticed.
    public let at: Timestamp

    /// Creates the end of a session.
    public init(_ cause: EndingCause, at: Timestamp) {
        self.cause = cause
        self.at = at
    }
}
