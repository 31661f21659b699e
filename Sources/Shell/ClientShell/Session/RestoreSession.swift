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
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (any Error) -> Void

    /// Creates the use case. `now` is the clock; `report` receives errors of the repository.
    public init(
        _ repository: any SessionRepository, now: @escaping @Sendable () -> Timestamp,
        report: @escaping @Sendable (any Error) -> Void
    ) {
        self.repository = repository
        self.now = now
        self.report = report
    }

    /// Reads the session, and removes it if it has expired.
    public func execute() async -> SessionStatus {
        do {
            let record = try await repository.record()
            let time = now()
            if let session = record.session, !session.isValid(at: time) { await clear(session, time) }
            return record.status(at: time)
        } catch {
            report(error)
            return .unauthenticated(.unreadable)
        }
    }

    /// Removes an expired session. A failure to remove it does not make it valid.
    private func clear(_ session: UserSession, _ time: Timestamp) async {
        do {
            try await repository.change { $0.end(session, SessionEnding(.expired, at: time)) }
        } catch {
            report(error)
        }
    }
}
