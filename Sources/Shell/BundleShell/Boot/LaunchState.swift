package import BundleCore
public import BundleValues

/// The state of the screen, independent of its presentation.
public enum LaunchState: Sendable, Equatable {
    /// The current client: a user is signed in, or no session is required.
    case client
    /// The client for guests: the seed.
    case guests
    /// No client: no user is signed in, and there is no client for guests.
    case signedOut(reason: UpdateFailure)
    /// No client: the device is locked.
    case locked
    /// The best client needs shell `minimum` or a newer one, and another client runs.
    case updateRequired(minimum: SemanticVersion)
    /// No client: an operator is servicing the device.
    case maintenance
    /// No client: the device waits for the first client of its feed. The `reason` is for the log.
    case waiting(reason: UpdateFailure)
    /// No client, because of a failure.
    case failure(reason: UpdateFailure)
}

extension LaunchState {
    /// The state of a session whose client is prepared. The best client needs shell `missingShell`, if this shell is older.
    public init(_ session: SessionStatus, missingShell: SemanticVersion? = nil) {
        self =
            switch session {
            case .locked(.byOperator): .locked
            case .locked(.forMaintenance): .maintenance
            case .unauthenticated: .guests
            case .notRequired, .authenticated: missingShell.map { .updateRequired(minimum: $0) } ?? .client
            }
    }

    /// The state of a session for which no client could be prepared, because of `reason`. A lock takes precedence over a failure.
    /// `hasSeed` is whether the device has a client for guests; `isWaiting` is whether it waits for the first client of its feed.
    public init(_ session: SessionStatus, without reason: UpdateFailure, hasSeed: Bool, isWaiting: Bool) {
        self =
            switch session {
            case .locked: LaunchState(session)
            case .unauthenticated(.ended) where !hasSeed: .signedOut(reason: reason)
            case .unauthenticated where !hasSeed: .failure(reason: reason)
            case .unauthenticated, .notRequired, .authenticated:
                isWaiting ? .waiting(reason: reason) : .failure(reason: reason)
            }
    }

    /// Whether the device is locked, so pages of clients have to leave even if a person would rather stay.
    package var isLock: Bool {
        switch self {
        case .locked, .maintenance: true
        case .client, .guests, .signedOut, .updateRequired, .waiting, .failure: false
        }
    }

    /// The reason why no client is shown; nil for a state without one.
    package var reason: UpdateFailure? {
        switch self {
        case .signedOut(let reason), .waiting(let reason), .failure(let reason): reason
        case .client, .guests, .locked, .updateRequired, .maintenance: nil
        }
    }

    /// Whether users may see every client.
    package var showsEveryClient: Bool {
        switch self {
        case .client, .updateRequired: true
        case .guests, .signedOut, .locked, .maintenance, .waiting, .failure: false
        }
    }

    /// Returns whether pages may show `name`.
    package func mayShow(_ name: ClientName) -> Bool { showsEveryClient || self == .guests && name == .embedded }
}

/// Shows a state.
public protocol LaunchRouting: Sendable {
    /// Replaces the present state by `state`. An equal state changes nothing.
    func route(to state: LaunchState) async
}

/// Prepares the client for the present session.
public protocol PrepareLaunchUseCase: Sendable {
    /// Prepares the client for this session without showing it, and returns the state to show. A prepared client is kept.
    func execute(for session: SessionStatus) async -> LaunchState
}

/// Controls the screen. It neither restores sessions nor launches clients.
public protocol Coordinator: AnyObject, Sendable {
    /// Starts the screen. It shows no client until a state is routed.
    func start() async
}
