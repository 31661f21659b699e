public import BundleValues

/// Determines the present status of the device's session.
public protocol RestoreSessionUseCase: Sendable {
    /// Returns the status. Without a readable session, no user is signed in.
    func execute() async -> SessionStatus
}

/// Reads the session from a repository. It removes an expired session, so a clock that is set back does not make it
/// valid again.
public struct RestoreSession: RestoreSessionUseCase {
    private let repository: any SessionRepository
    private let environment: Environment

    /// Creates the use case. The log of `environment` receives errors of the repository.
    public init(_ repository: any SessionRepository, environment: Environment) {
        self.repository = repository
        self.environment = environment
    }

    /// Reads the session, and removes it if it has expired.
    public func execute() async -> SessionStatus {
        do {
            let record = try await repository.record()
            let time = environment.now()
            if let session = record.session, !session.isValid(at: time) { await clear(session, time) }
            return record.status(at: time)
        } catch {
            environment.log(UpdateFailure(error).message)
            return .unauthenticated(.unreadable)
        }
    }

    /// Removes an expired session. A failure to remove it does not make it valid.
    private func clear(_ session: UserSession, _ time: Timestamp) async {
        do {
            try await repository.change { $0.end(session, SessionEnding(.expired, at: time)) }
        } catch {
            environment.log(UpdateFailure(error).message)
        }
    }
}
