public import BundleValues

/// What there is to be shown, without a word about how.
public enum LaunchState: Sendable, Equatable {
    /// The current client: whoever uses the device is signed in, or nobody has to be.
    case authenticated
    /// What guests may see.
    case unauthenticated
    /// Nothing but that nobody is signed in: there is nothing for guests.
    case signedOut(reason: UpdateFailure)
    /// Nothing but that the device is locked.
    case locked
    /// The best client needs shell `minimum` or a newer one; another client runs instead.
    case updateRequired(minimum: SemanticVersion)
    /// Nothing but that an operator works on the device.
    case maintenance
    /// Nothing but that the device waits for the first client of its feed; `reason` is for the log.
    case waiting(reason: UpdateFailure)
    /// Nothing can be shown.
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

    /// What follows from a session and from what could be made ready for it: a lock hides everything, a failure all but a lock.
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

/// A shell's promise to show a state.
public protocol LaunchRouting: Sendable {
    /// Shows `state` in place of what was shown before; the state that is shown already stays as it is.
    func route(to state: LaunchState) async
}

/// Makes ready what may be shown to whoever uses the device.
public protocol PrepareLaunchUseCase: Sendable {
    /// Makes it ready for this session; what is ready already stays as it is. Nothing is shown yet.
    func execute(for session: SessionStatus) async -> LaunchReadiness
}

/// What could be made ready.
public enum LaunchReadiness: Sendable, Equatable {
    /// All that this session may see.
    case ready
    /// A client, but not the best one: that needs shell `minimum` or a newer one.
    case shellTooOld(minimum: SemanticVersion)
    /// Nothing, because the device has no seed and nobody is signed in.
    case nothingForGuests(UpdateFailure)
    /// Nothing, because the device has no seed and its first client has not come yet.
    case nothingYet(UpdateFailure)
    /// Nothing, for another reason.
    case failed(UpdateFailure)
}

/// Whoever answers for what is on the screen. It neither restores a session nor knows how a client is launched.
public protocol Coordinator: AnyObject, Sendable {
    /// Takes the screen: nothing of a client is shown until something is routed to.
    func start() async
}
