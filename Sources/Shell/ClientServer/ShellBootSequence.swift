import BundleCore
package import BundleShell
import BundleValues

/// Boots a shell, and repeats this while its host runs, because sessions end, and other programs lock the device or log in users.
package struct ShellBootSequence: Sendable {
    private let sessions: any SessionRepository
    private let coordinator: ShellCoordinator
    private let bootstrapper: AppBootstrapper
    private let log: @Sendable (String) -> Void
    private let report: @Sendable (LaunchState) -> Void
    private let userDidSignIn: @Sendable () async -> Void

    /// Creates a sequence that shows the results of `launch` by `bridge`. `log` receives lines for operators, and `report` each shown state.
    package init(
        sessions: any SessionRepository, launch: any PrepareLaunchUseCase, bridge: LoopbackBridge,
        log: @escaping @Sendable (String) -> Void, report: @escaping @Sendable (LaunchState) -> Void = { _ in },
        userDidSignIn: @escaping @Sendable () async -> Void = {}
    ) {
        self.sessions = sessions
        self.report = report
        self.userDidSignIn = userDidSignIn
        self.log = log
        let coordinator = ShellCoordinator(bridge, Environment(log: log))
        self.coordinator = coordinator
        bootstrapper = AppBootstrapper(
            restoreSession: RestoreSession(sessions, environment: Environment(log: { coordinator.report($0) })),
            prepareLaunch: launch, router: coordinator)
    }

    /// The shown state, and the user who sees it.
    package struct Shown: Sendable {
        package let state: LaunchState?
        fileprivate let user: UserSession?
    }

    /// Boots, and returns the shown state. Throws the reason if nothing can be shown, the device requires no session, and it does not wait
    /// for a first update (`waits`).
    package func first(waits: Bool) async throws -> Shown {
        let user = await user
        await coordinator.start()
        await bootstrapper.start()
        let state = coordinator.state
        if case .failure(let reason)? = state, !waits, await isOpen { throw reason }
        if let state {
            report(state)
            Self.describe(state, isFirst: true).map(log)
        }
        return Shown(state: state, user: user)
    }

    /// Whether the device requires no session; false if the record cannot be read.
    private var isOpen: Bool {
        get async { (try? await sessions.record().isRequired) == false }
    }

    /// The session of the current user; nil without one, or if the record cannot be read, which other code reports.
    private var user: UserSession? {
        get async { try? await sessions.record().session }
    }

    /// Boots at each `interval` until the task is cancelled, and reports changes since `shown`.
    package func again(every interval: Duration, after shown: Shown) async {
        var (said, known) = (shown.state, shown.user)
        var line = said.flatMap { Self.describe($0, isFirst: true) }
        while true {
            do { try await Task.sleep(for: interval) } catch { return }
            await bootstrapper.start()
            let now = await user
            if let now, now != known { await userDidSignIn() }
            known = now
            guard let state = coordinator.state, state != said else { continue }
            report(state)
            let before = line
            line = Self.describe(state, isFirst: said == nil)
            // The log has the failures of checks. A device that waits is described once.
            if let line, line != before { log(line) }
            said = state
        }
    }

    /// Returns the line of the log about `state`; nil for a normal start.
    private static func describe(_ state: LaunchState, isFirst: Bool) -> String? {
        switch state {
        case .client: isFirst ? nil : "the device has a client to show"
        case .guests: "no user is logged in: guests see the seed"
        case .signedOut(let reason): "no session: \(reason.message)"
        case .locked: "the device is locked"
        case .updateRequired(let minimum):
            "the best client \(ShellCompatibility.shellTooOld(minimum: minimum)); another one is shown"
        case .maintenance: "the device is locked for maintenance"
        case .waiting: "no client yet: the first one is shown as soon as a check has installed it"
        case .failure(let reason): reason.message
        }
    }
}
