import BundleCore
public import BundleValues

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
