import BundleValues
package import ClientShell
package import ShellBoot

/// Answers for what a browser on this machine sees: which state is which page.
package final class ShellCoordinator: Coordinator, LaunchRouting {
    private let bridge: LoopbackBridge
    private let observe: @Sendable (any Error) -> Void

    /// For the pages behind `bridge`; `observe` receives why a state cannot be shown, once for as long as it is the same.
    package init(_ bridge: LoopbackBridge, report observe: @escaping @Sendable (any Error) -> Void) {
        self.bridge = bridge
        self.observe = observe
    }

    /// What is shown; nil before anything was routed to.
    package var state: LaunchState? { bridge.withScreen { $0.state } }

    /// Nothing of a client is shown until something is routed to.
    package func start() async { show(nil) }

    /// Shows `state`; pages that are open load themselves again. One that cannot be shown is tried again with the next.
    package func route(to state: LaunchState) async {
        let isShown = bridge.withScreen { $0.state == state && !$0.hasEnded }
        if !isShown { show(state) }
    }

    /// Passes on what is wrong with the boot, once for as long as it is the same.
    package func report(_ error: any Error) {
        let message = UpdateFailure(error).message
        if bridge.withScreen({ $0.isNew(trouble: message) }) { observe(error) }
    }

    private func show(_ state: LaunchState?) {
        do {
            try bridge.show(state)
        } catch {
            report(error)
        }
    }
}

/// Makes a client ready for whoever uses the device: every client for those that are signed in, the seed for guests, none behind a
/// lock.
package struct ShellLaunch: PrepareLaunchUseCase {
    private let shell: ClientShell
    private let noteEnded: @Sendable () async -> Bool

    /// For the clients of `shell`. `noteEnded` tells which session was the last that ended, to whoever clears away what it left; true
    /// where another one has ended since the call before.
    package init(_ shell: ClientShell, noteEnded: @escaping @Sendable () async -> Bool) {
        self.shell = shell
        self.noteEnded = noteEnded
    }

    /// Leaves what others have been shown, and makes ready what is for this session.
    package func execute(for session: SessionStatus) async -> LaunchReadiness {
        if await noteEnded() { await shell.sessionDidEnd() }
        let audience = Self.audience(of: session)
        do {
            return try await shell.admit(audience).map { .shellTooOld(minimum: $0) } ?? .ready
        } catch {
            let reason = UpdateFailure(error)
            if audience == .guests && !shell.hasSeed { return .nothingForGuests(reason) }
            return await shell.waitsForFirstClient ? .nothingYet(reason) : .failed(reason)
        }
    }

    private static func audience(of session: SessionStatus) -> ClientShell.Audience {
        switch session {
        case .notRequired, .authenticated: .everybody
        case .unauthenticated: .guests
        case .locked: .nobody
        }
    }
}
