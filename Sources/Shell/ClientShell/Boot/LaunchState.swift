public import BundleValues

/// The state of the screen, independent of its presentation.
public enum LaunchState: Sendable, Equatable {
    /// The current client: a user is signed in, or no session is required.
    case authenticated
    /// The client for guests.
    case unauthenticated
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
    /// Whether the device is locked.
    package var isLock: Bool {
        switch self {
        case .locked, .maintenance: true
        case .authenticated, .unauthenticated, .signedOut, .updateRequired, .waiting, .failure: false
        }
    }

    /// Combines a session and the prepared launch. A lock takes precedence over a failure, and a failure over
    /// everything else.
    init(session: SessionStatus, readiness: LaunchReadiness) {
        self =
            switch (session, readiness) {
            case (.locked(.byOperator), _): .locked
            case (.locked(.forMaintenance), _): .maintenance
            case (.unauthenticated(.ended), .nothingForGuests(let reason)): .signedOut(reason: reason)
            case (_, .nothingForGuests(let reason)), (_, .failed(let reason)): .failure(reason: reason)
            case (_, .nothingYet(let reason)): .waiting(reason: reason)
            case (.unauthenticated, _): .unauthenticated
            case (.authenticated, .shellTooOld(let minimum)), (.notRequired, .shellTooOld(let minimum)):
                .updateRequired(minimum: minimum)
            case (.authenticated, .ready), (.notRequired, .ready): .authenticated
            }
    }
}

/// Shows a state.
public protocol LaunchRouting: Sendable {
    /// Replaces the present state by `state`. An equal state changes nothing.
    func route(to state: LaunchState) async
}

/// Prepares the client for the present session.
public protocol PrepareLaunchUseCase: Sendable {
    /// Prepares the client for this session without showing it. A prepared client is kept.
    func execute(for session: SessionStatus) async -> LaunchReadiness
}

/// The result of preparing a launch.
public enum LaunchReadiness: Sendable, Equatable {
    /// The best client for this session.
    case ready
    /// A client, but not the best one, which needs shell `minimum` or a newer one.
    case shellTooOld(minimum: SemanticVersion)
    /// No client, because the device has no seed and no user is signed in.
    case nothingForGuests(UpdateFailure)
    /// No client, because the device has no seed and no client of its feed yet.
    case nothingYet(UpdateFailure)
    /// No client, for another reason.
    case failed(UpdateFailure)
}

/// Controls the screen. It neither restores sessions nor launches clients.
public protocol Coordinator: AnyObject, Sendable {
    /// Starts the screen. It shows no client until a state is routed.
    func start() async
}
