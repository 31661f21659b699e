import BundleCore
public import BundleValues

/// That somebody signed in, until when, and with what token.
public struct UserSession: Sendable, Equatable {
    /// What is shown to the feed's server.
    public let token: AccessToken
    /// When somebody signed in.
    public let since: Timestamp
    /// The first moment at which it is worth nothing; nil where only the server knows.
    public let expires: Timestamp?

    /// States a session.
    public init(token: AccessToken, since: Timestamp, expires: Timestamp?) {
        self.token = token
        self.since = since
        self.expires = expires
    }

    /// Whether it is worth anything at `time`.
    public func isValid(at time: Timestamp) -> Bool { expires.map { time < $0 } ?? true }
}

/// Everything that is remembered about who may use a device, and the legal changes to it.
public struct SessionRecord: Sendable, Equatable {
    /// Whether somebody has to sign in, and who did.
    public enum Access: Sendable, Equatable {
        /// Nobody ever signed in: everybody may use the device.
        case open
        /// Somebody is signed in.
        case session(UserSession)
        /// Somebody was.
        case ended(SessionEnding)
    }

    /// Whether somebody has to sign in, and who did.
    public private(set) var access: Access
    /// Why the device is locked; nil where it is not.
    public private(set) var lock: SessionLock?
    /// The sessions that have ended; nil for none. What their users left behind is not for whoever comes.
    public private(set) var endings: SessionEndings?

    /// How often the feed's server has refused the token of the session; nil where it did not.
    public private(set) var rejections: SessionRejections?

    /// A device that nobody ever signed in on.
    public static let open = SessionRecord(access: .open, lock: nil)

    /// What was written down before.
    public init(
        access: Access, lock: SessionLock?, endings: SessionEndings? = nil, rejections: SessionRejections? = nil
    ) {
        self.access = access
        self.lock = lock
        self.endings = endings
        self.rejections = rejections
        // One has ended, whoever forgot to count it.
        if case .ended(let ending) = access, endings == nil { self.endings = SessionEndings(count: 1, last: ending.at) }
    }

    /// Those at `time`, with one that is over and not cleared away yet.
    public func endings(at time: Timestamp) -> SessionEndings? {
        guard let session, !session.isValid(at: time) else { return endings }
        return SessionEndings(after: endings, of: session, at: time)
    }

    /// The session, valid or not.
    public var session: UserSession? { if case .session(let session) = access { session } else { nil } }

    /// Whether somebody has to sign in.
    public var isRequired: Bool { access != .open }

    /// What it is worth at `time`. A lock outlasts the session: waiting opens nothing.
    public func status(at time: Timestamp) -> SessionStatus {
        if let lock { return .locked(lock) }
        return switch access {
        case .open: .notRequired
        case .session(let session) where session.isValid(at: time): .authenticated
        case .session: .unauthenticated(.ended(.expired))
        case .ended(let ending): .unauthenticated(.ended(ending.cause))
        }
    }

    /// Whether it is time to sign in again without a person: the session ends within `lead` seconds, its token is refused, or it ended and
    /// no person signed out.
    package func wantsRenewal(at time: Timestamp, lead: Int) -> Bool {
        switch access {
        case .open: false
        case .session(let session):
            rejections != nil || !session.isValid(at: Timestamp(clamping: time.secondsSinceEpoch + lead))
        case .ended(let ending): ending.cause != .signedOut
        }
    }

    /// Somebody signs in, or does so anew: who takes over from somebody else signs that one out before. A locked device stays locked.
    public mutating func signIn(_ session: UserSession) {
        endings = endings(at: session.since)
        access = .session(session)
        rejections = nil
    }

    /// Whoever is signed in signs out; nothing changes where nobody is.
    public mutating func signOut(at time: Timestamp) {
        if let session { close(session, SessionEnding(.signedOut, at: time)) }
    }

    private mutating func close(_ session: UserSession, _ ending: SessionEnding) {
        access = .ended(ending)
        rejections = nil
        endings = SessionEndings(after: endings, of: session, at: ending.at)
    }

    /// From now on nobody has to sign in, as on a device where nobody ever did.
    public mutating func forget(at time: Timestamp) {
        signOut(at: time)
        access = .open
    }

    /// `session` is worth nothing any more. Nothing changes where another one has taken its place.
    public mutating func end(_ session: UserSession, _ ending: SessionEnding) {
        if self.session == session { close(session, ending) }
    }

    /// The feed's server refuses the token of `session` at `time`; see `SessionRejections` for when that ends it. Nothing changes where
    /// another session has taken its place.
    public mutating func reject(_ session: UserSession, at time: Timestamp) {
        guard self.session == session else { return }
        switch SessionRejections.outcome(at: time, after: rejections) {
        case .sessionGoesOn(let all): rejections = all
        case .sessionEnds: close(session, SessionEnding(.rejected, at: time))
        }
    }

    /// The feed's server accepts the token of `session`.
    public mutating func accept(_ session: UserSession) {
        if self.session == session { rejections = nil }
    }

    /// Locks the device.
    public mutating func lock(_ lock: SessionLock) { self.lock = lock }

    /// Unlocks it.
    public mutating func unlock() { lock = nil }
}

/// Sessions that have ended, so that somebody who looks twice can tell whether another one has.
public struct SessionEndings: Sendable, Equatable {
    /// How many, since they are counted.
    public let count: Int
    /// When the last one did: a count that began anew is another one.
    public let last: Timestamp

    /// States them.
    public init(count: Int, last: Timestamp) {
        self.count = count
        self.last = last
    }

    /// One more: `session`, which was found to be over at `time`, and was over at its own time before that.
    init(after before: SessionEndings?, of session: UserSession, at time: Timestamp) {
        self.init(count: (before?.count ?? 0) + 1, last: min(session.expires ?? time, time))
    }

    /// A word that differs from that of all others: letters, digits and a hyphen.
    public var name: String { "\(count)-\(last.secondsSinceEpoch)" }
}

/// What keeps the record of a device's sessions; the domain's contract, which each platform fulfils its own way.
public protocol SessionRepository: Sendable {
    /// What is remembered; `SessionRecord.open` where nothing ever was. Throws where it cannot be told.
    func record() async throws -> SessionRecord

    /// Changes what is remembered as a whole, and gives what it is then; durable when it returns.
    ///
    /// No change of anybody else gets lost. After a failure everything is what it was.
    @discardableResult
    func change(_ body: @Sendable (inout SessionRecord) -> Void) async throws -> SessionRecord
}

/// What a session is worth at a moment; a word of the domain, not of the screen.
public enum SessionStatus: Sendable, Equatable {
    /// Nobody ever signed in on this device, so nobody has to.
    case notRequired
    /// There is a session, and it is valid.
    case authenticated
    /// There is none.
    case unauthenticated(Reason)
    /// The device is locked, whoever is signed in.
    case locked(SessionLock)

    /// Why there is no session.
    public enum Reason: Sendable, Equatable {
        /// It ended.
        case ended(SessionEnding.Cause)
        /// What is remembered cannot be read: nobody is let in for that.
        case unreadable
    }
}

/// Why a device is locked.
public enum SessionLock: String, Sendable, Equatable, CaseIterable {
    /// Somebody locked it.
    case byOperator = "locked"
    /// Somebody works on it.
    case forMaintenance = "maintenance"
}

/// How a session ended.
public struct SessionEnding: Sendable, Equatable {
    /// What ended it.
    public enum Cause: String, Sendable, Equatable, CaseIterable {
        /// Somebody signed out.
        case signedOut
        /// Its time was over.
        case expired
        /// The feed's server refused its token.
        case rejected
    }

    /// What ended it.
    public let cause: Cause
    /// When that was noticed.
    public let at: Timestamp

    /// States an end.
    public init(_ cause: Cause, at: Timestamp) {
        self.cause = cause
        self.at = at
    }
}
