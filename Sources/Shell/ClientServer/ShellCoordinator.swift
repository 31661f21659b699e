package import BundleValues
package import BundleShell

/// Selects the page that a browser on this machine shows in each state.
package final class ShellCoordinator: Coordinator, LaunchRouting {
    private let bridge: LoopbackBridge
    private let environment: Environment

    /// Creates a coordinator for the pages behind `bridge`. The log of `environment` receives the error of a state that cannot be
    /// shown, once until it changes.
    package init(_ bridge: LoopbackBridge, _ environment: Environment) {
        self.bridge = bridge
        self.environment = environment
    }

    /// The present state; nil before the first one.
    package var state: LaunchState? { bridge.withScreen { $0.state } }

    /// Shows no client until a state is routed.
    package func start() async { show(nil) }

    /// Shows `state`; open pages reload. A state that cannot be shown is tried again with the next one.
    package func route(to state: LaunchState) async {
        let isShown = bridge.withScreen { $0.state == state && !$0.hasEnded }
        if !isShown { show(state) }
    }

    /// Reports an error of the boot, once until it changes.
    package func report(_ message: String) {
        if bridge.withScreen({ $0.isNew(trouble: message) }) { environment.log(message) }
    }

    private func show(_ state: LaunchState?) {
        do {
            try bridge.show(state, at: environment.now())
        } catch {
            report(UpdateFailure(error).message)
        }
    }
}

/// Prepares a client for the present session: every client for users who are signed in, the seed for guests, none for
/// a locked device.
package struct ShellLaunch: PrepareLaunchUseCase {
    private let shell: ClientShell
    private let noteEnded: @Sendable () async -> Bool

    /// Creates the use case for `shell`. `noteEnded` records the last session that ended, whose data has to be
    /// cleared. It returns true if another one has ended since the call before.
    package init(_ shell: ClientShell, noteEnded: @escaping @Sendable () async -> Bool) {
        self.shell = shell
        self.noteEnded = noteEnded
    }

    /// Ends the launch of another audience, and prepares a client for this session.
    package func execute(for session: SessionStatus) async -> LaunchState {
        if await noteEnded() { await shell.sessionDidEnd() }
        do {
            return LaunchState(session, missingShell: try await shell.admit(ClientShell.Audience(session)))
        } catch {
            let isWaiting = await shell.waitsForFirstClient
            let reason = isWaiting ? await shell.checkFailure ?? UpdateFailure(error) : UpdateFailure(error)
            return LaunchState(session, without: reason, hasSeed: shell.hasSeed, isWaiting: isWaiting)
        }
    }
}
