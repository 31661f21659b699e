import BundleValues
import ClientShell

/// How `serve` boots: wires the bootstrapper, starts it, and starts it again for as long as the host runs, since a session ends, and
/// other commands lock, unlock, log in and out.
struct ShellBootSequence {
    private let sessions: any SessionRepository
    private let coordinator: ShellCoordinator
    private let bootstrapper: AppBootstrapper
    private let say: @Sendable (String) -> Void
    private let tell: @Sendable (LaunchState) -> Void
    private let welcome: @Sendable () async -> Void

    /// Shows what `launch` makes ready by `bridge`. `say` gets what an operator wants to read, `tell` every state that is shown, and
    /// `welcome` is called when somebody has logged in.
    init(
        sessions: any SessionRepository, _ launch: any PrepareLaunchUseCase, _ bridge: LoopbackBridge,
        say: @escaping @Sendable (String) -> Void, tell: @escaping @Sendable (LaunchState) -> Void,
        welcome: @escaping @Sendable () async -> Void = {}
    ) {
        self.sessions = sessions
        self.tell = tell
        self.welcome = welcome
        self.say = say
        let coordinator = ShellCoordinator(bridge, report: { say(UpdateFailure($0).message) })
        self.coordinator = coordinator
        bootstrapper = AppBootstrapper(
            restoreSession: RestoreSession(sessions, now: { .now }, report: { coordinator.report($0) }),
            prepareLaunch: launch, router: coordinator)
    }

    /// What is shown, and to whom.
    struct Shown {
        let state: LaunchState?
        fileprivate let user: UserSession?
    }

    /// Boots, and returns what is shown. Where nothing can be shown on a device that is nobody's to log in on, and that does not
    /// wait for what its feed may have (`waits`), there is nothing to host: throws why.
    func first(waits: Bool) async throws -> Shown {
        let user = await user
        await coordinator.start()
        await bootstrapper.start()
        let state = coordinator.state
        if case .failure(let reason)? = state, !waits, await isOpen { throw reason }
        if let state {
            tell(state)
            Self.describe(state, isFirst: true).map(say)
        }
        return Shown(state: state, user: user)
    }

    /// A device whose sessions cannot be read is not open.
    private var isOpen: Bool {
        get async { (try? await sessions.record().isRequired) == false }
    }

    /// Who is logged in; nobody where that cannot be read, which is told of elsewhere.
    private var user: UserSession? {
        get async { try? await sessions.record().session }
    }

    /// Boots again and again, until it is cancelled, and says what is shown in place of `shown`.
    func again(every interval: Duration, after shown: Shown) async {
        var (said, known) = (shown.state, shown.user)
        while true {
            do { try await Task.sleep(for: interval) } catch { return }
            await bootstrapper.start()
            let now = await user
            if let now, now != known { await welcome() }
            known = now
            guard let state = coordinator.state, state != said else { continue }
            tell(state)
            Self.describe(state, isFirst: said == nil).map(say)
            said = state
        }
    }

    /// What an operator wants to read in the log; nothing about a start as usual.
    private static func describe(_ state: LaunchState, isFirst: Bool) -> String? {
        switch state {
        case .authenticated: isFirst ? nil : "the device shows its client"
        case .unauthenticated: "nobody is logged in: guests see the seed"
        case .signedOut(let reason): "no session: \(reason.message)"
        case .locked: "the device is locked"
        case .updateRequired(let minimum):
            "the best client \(ShellCompatibility.shellTooOld(minimum: minimum)); another one is shown"
        case .maintenance: "the device is locked for maintenance"
        case .waiting(let reason): "waiting for the first update. \(reason.message)"
        case .failure(let reason): reason.message
        }
    }
}
