public import BundleValues

/// Tells what the session of the device is worth now.
public protocol RestoreSessionUseCase: Sendable {
    /// Never fails: without an answer, nobody is signed in.
    func execute() async -> SessionStatus
}

/// Restores the session out of a repository. One whose time is over is cleared away, so that no clock that goes back revives it.
public struct RestoreSession: RestoreSessionUseCase {
    private let repository: any SessionRepository
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (any Error) -> Void

    /// `now` is the clock; `report` hears why the repository could not be read or changed.
    public init(
        _ repository: any SessionRepository, now: @escaping @Sendable () -> Timestamp,
        report: @escaping @Sendable (any Error) -> Void
    ) {
        self.repository = repository
        self.now = now
        self.report = report
    }

    /// Reads, judges, and clears what is over.
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

    /// A session that cannot be cleared away is worth no more for it.
    private func clear(_ session: UserSession, _ time: Timestamp) async {
        do {
            try await repository.change { $0.end(session, SessionEnding(.expired, at: time)) }
        } catch {
            report(error)
        }
    }
}
