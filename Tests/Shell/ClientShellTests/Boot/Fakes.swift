import ClientShell
import Synchronization

/// Returns a fixed status and counts its calls.
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

/// Returns a fixed readiness and records the sessions of its calls.
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

/// Records the routed states.
final class LaunchRouterSpy: LaunchRouting {
    private let states = Mutex<[LaunchState]>([])

    var routedStates: [LaunchState] { states.withLock { $0 } }

    func route(to state: LaunchState) async { states.withLock { $0.append(state) } }
}
