public import BundleValues

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

    /// A device that nobody ever signed in on.
    public static let open = SessionRecord(access: .open, lock: nil)

    /// What was written down before.
    public init(access: Access, lock: SessionLock?) {
        self.access = access
        self.lock = lock
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

    /// Somebody signs in; a locked device stays locked.
    public mutating func signIn(_ session: UserSession) { access = .session(session) }

    /// Whoever is signed in signs out; nothing changes where nobody is.
    public mutating func signOut(at time: Timestamp) {
        if session != nil { access = .ended(SessionEnding(.signedOut, at: time)) }
    }

    /// From now on nobody has to sign in, as on a device where nobody ever did.
    public mutating func forget() { access = .open }

    /// `session` is worth nothing any more. Nothing changes where another one has taken its place.
    public mutating func end(_ session: UserSession, _ ending: SessionEnding) {
        if self.session == session { access = .ended(ending) }
    }

    /// Locks the device.
    public mutating func lock(_ lock: SessionLock) { self.lock = lock }

    /// Unlocks it.
    public mutating func unlock() { lock = nil }
}
