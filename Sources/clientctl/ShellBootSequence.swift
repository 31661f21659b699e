import BundleCore
import ClientShell
import LoopbackShell
import ShellBoot
import Synchronization

/// How `serve` boots: wires the bootstrapper, starts it, and starts it again for as long as the host runs, since a session ends, and
/// other commands lock, unlock, log in and out.
final class ShellBootSequence: Sendable {
    private let sessions: any SessionRepository
    private let coordinator: ShellCoordinator
    private let bootstrapper: AppBootstrapper
    private let say: @Sendable (String) -> Void
    private let told = Mutex<LaunchState?>(nil)

    init(
        sessions: any SessionRepository, _ shell: ClientShell, _ host: LoopbackHost,
        say: @escaping @Sendable (String) -> Void
    ) {
        let report = Self.newsOnly(say)
        self.sessions = sessions
        self.say = say
        coordinator = ShellCoordinator(host, report: report)
        bootstrapper = AppBootstrapper(
            restoreSession: RestoreSession(sessions, now: { .now }, report: report), prepareLaunch: ShellLaunch(shell),
            router: coordinator)
    }

    /// Boots. Where nothing can be shown on a device that is nobody's to log in on, there is nothing to host: throws why.
    func first() async throws {
        await coordinator.start()
        await bootstrapper.start()
        if case .failure(let reason)? = coordinator.state, await isOpen { throw reason }
        tell()
    }

    /// A device whose sessions cannot be read is not open.
    private var isOpen: Bool {
        get async { (try? await sessions.record().isRequired) == false }
    }

    /// Boots again and again, until it is cancelled.
    func again(every interval: Duration) async {
        while true {
            do { try await Task.sleep(for: interval) } catch { return }
            await bootstrapper.start()
            tell()
        }
    }

    /// Says what is shown in place of what was shown before.
    private func tell() {
        guard let state = coordinator.state else { return }
        let before = told.withLock { told in
            defer { told = state }
            return told
        }
        if before != state { Self.describe(state, isFirst: before == nil).map(say) }
    }

    /// Says what is wrong once, for as long as it is the same.
    private static func newsOnly(_ say: @escaping @Sendable (String) -> Void) -> @Sendable (any Error) -> Void {
        let last = Mutex("")
        return { error in
            let message = UpdateFailure(error).message
            let isNew = last.withLock { last in
                defer { last = message }
                return last != message
            }
            if isNew { say(message) }
        }
    }

    /// What an operator wants to read in the log; nothing about a start as usual.
    private static func describe(_ state: LaunchState, isFirst: Bool) -> String? {
        switch state {
        case .authenticated: isFirst ? nil : "the device shows its client"
        case .unauthenticated: "nobody is logged in: guests see the seed"
        case .locked: "the device is locked"
        case .updateRequired(let minimum):
            "the best client \(ShellCompatibility.shellTooOld(minimum: minimum)); another one is shown"
        case .maintenance: "the device is locked for maintenance"
        case .failure(let reason): reason.message
        }
    }
}
