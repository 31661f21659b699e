import ShellBoot
import Synchronization

/// Gives the status it was made with, and counts how often it was asked.
final class RestoreSessionFake: RestoreSessionUseCase {
    private let status: SessionStatus
    private let asked = Mutex(0)

    init(_ status: SessionStatus) { self.status = status }

    var askedCount: Int { asked.withLock { $0 } }

    func execute() async -> SessionStatus {
        asked.withLock { $0 += 1 }
        return status
    }
}

/// Gives the readiness it was made with, and remembers the sessions that it was asked for.
final class PrepareLaunchFake: PrepareLaunchUseCase {
    private let readiness: LaunchReadiness
    private let sessions = Mutex<[SessionStatus]>([])

    init(_ readiness: LaunchReadiness = .ready) { self.readiness = readiness }

    var preparedSessions: [SessionStatus] { sessions.withLock { $0 } }

    func execute(for session: SessionStatus) async -> LaunchReadiness {
        sessions.withLock { $0.append(session) }
        return readiness
    }
}

/// Records what it was routed to.
final class LaunchRouterSpy: LaunchRouting {
    private let states = Mutex<[LaunchState]>([])

    var routedStates: [LaunchState] { states.withLock { $0 } }

    func route(to state: LaunchState) async { states.withLock { $0.append(state) } }
}
