import BundleShell
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

/// Returns a fixed state and records the sessions of its calls.
final class PrepareLaunchFake: PrepareLaunchUseCase {
    private let state: LaunchState
    private let sessions = Mutex<[SessionStatus]>([])

    init(_ state: LaunchState) { self.state = state }

    var preparedSessions: [SessionStatus] { sessions.withLock { $0 } }

    func execute(for session: SessionStatus) async -> LaunchState {
        sessions.withLock { $0.append(session) }
        return state
    }
}

/// Records the routed states.
final class LaunchRouterSpy: LaunchRouting {
    private let states = Mutex<[LaunchState]>([])

    var routedStates: [LaunchState] { states.withLock { $0 } }

    func route(to state: LaunchState) async { states.withLock { $0.append(state) } }
}
