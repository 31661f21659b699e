package import BundleValues
package import ClientShell
package import ShellBoot

/// Answers for what a browser on this machine sees: which state is which page.
package final class ShellCoordinator: Coordinator, LaunchRouting {
    private let host: LoopbackHost
    private let observe: @Sendable (any Error) -> Void

    /// For the pages of `host`; `observe` receives why a state cannot be shown, once for as long as it is the same.
    package init(_ host: LoopbackHost, report observe: @escaping @Sendable (any Error) -> Void) {
        self.host = host
        self.observe = observe
    }

    /// What is shown; nil before anything was routed to.
    package var state: LaunchState? { host.state }

    /// Nothing of a client is shown until something is routed to.
    package func start() async { show(nil) }

    /// Shows `state`; pages that are open load themselves again. One that cannot be shown is tried again with the next.
    package func route(to state: LaunchState) async { if self.state != state || host.hasSessionEnded { show(state) } }

    /// Passes on what is wrong with the boot, once for as long as it is the same.
    package func report(_ error: any Error) {
        if host.isNew(trouble: UpdateFailure(error).message) { observe(error) }
    }

    private func show(_ state: LaunchState?) {
        do {
            try host.show(state)
        } catch {
            report(error)
        }
    }
}

/// Makes a client ready for whoever uses the device: every client for those that are signed in, the seed for guests, none behind a
/// lock.
package struct ShellLaunch: PrepareLaunchUseCase {
    private let shell: ClientShell
    private let noteEnded: @Sendable () async -> Void

    /// For the clients of `shell`. `noteEnded` tells which session was the last that ended, to whoever clears away what it left.
    package init(_ shell: ClientShell, noteEnded: @escaping @Sendable () async -> Void = {}) {
        self.shell = shell
        self.noteEnded = noteEnded
    }

    /// The same, where pages of `host` leave nothing behind when one of `sessions` ends.
    package init(
        _ shell: ClientShell, _ host: LoopbackHost, _ sessions: any SessionRepository,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.init(shell) {
            // What cannot be read may go on.
            guard let record = try? await sessions.record() else { return }
            host.note(ended: record.endings(at: now())?.name)
        }
    }

    /// Leaves what others have been shown, and makes ready what is for this session.
    package func execute(for session: SessionStatus) async -> LaunchReadiness {
        await noteEnded()
        let audience = Self.audience(of: session)
        do {
            return try await shell.admit(audience).map { .shellTooOld(minimum: $0) } ?? .ready
        } catch {
            let isEmpty = audience == .guests && !shell.hasSeed
            return isEmpty ? .nothingForGuests(UpdateFailure(error)) : .failed(UpdateFailure(error))
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
