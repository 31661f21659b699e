import BundleCore
import BundleDisk
import BundleValues
import BundleShell
import Synchronization

/// `serve` as a program that `clientctl run` started: it confirms its own start, and ends when another program is ready.
final class ServedProgram: Sendable {
    /// A device whose page nobody opens for this time has nothing that could confirm the program.
    private static let longestWaitForPage = Duration.seconds(30)
    private static let interval = Duration.seconds(5)

    private let launcher: ProgramLauncher?
    private let version: SemanticVersion
    private let token: LaunchToken?
    private let seen: Mutex<Seen>

    private struct Seen {
        /// Whether a page has been launched, and whether one has confirmed its start.
        var isLaunched = false
        var hasPage = false
        var hasChecked: Bool
        var isSettled = false
    }

    /// Returns nil if `run` did not start this process. Without a source, `serve` makes no checks.
    init?(hasSource: Bool) {
        guard let version = ProgramVariables.runningVersion else { return nil }
        self.version = version
        token = ProgramVariables.trialToken
        launcher = try? ProgramVariables.launcher()
        seen = Mutex(Seen(hasChecked: !hasSource))
    }

    /// Whether the program waits for its confirmation.
    var isOnTrial: Bool { token != nil }

    func hear(_ event: ShellEvent) {
        let isReady = seen.withLock { seen in
            switch event {
            case .launched: seen.isLaunched = true
            case .confirmed: seen.hasPage = true
            case .checked: seen.hasChecked = true
            default: return false
            }
            return seen.hasPage && seen.hasChecked
        }
        if isReady { confirm() }
    }

    private func confirm() {
        guard let launcher, let token, !seen.withLock({ Self.settle(&$0) }) else { return }
        do {
            try launcher.confirm(version, token)
            Log.note(LogLine(level: .info, event: "program", message: "the program \(version) is confirmed"))
        } catch {
            Output.warn("the program \(version) is not confirmed: \(UpdateFailure(error).message)")
        }
    }

    /// Returns whether there was a verdict before.
    private static func settle(_ seen: inout Seen) -> Bool {
        defer { seen.isSettled = true }
        return seen.isSettled
    }

    /// Ends the trial without a verdict, because the service manager stops `serve`.
    func stop() {
        guard let launcher, let token, !seen.withLock({ Self.settle(&$0) }) else { return }
        try? launcher.abandon(version, token)
    }

    /// Returns when another program is ready and the page of `shell` may be interrupted.
    func untilReplaced(_ shell: ClientShell) async throws {
        let began = SuspendingClock().now
        while true {
            try await Task.sleep(for: Self.interval)
            let isUnseen = seen.withLock { !$0.isLaunched && $0.hasChecked }
            if isUnseen, began.duration(to: .now) >= Self.longestWaitForPage { confirm() }
            let isOpen = token != nil && !seen.withLock(\.isSettled)
            // The store may not exist yet, or may be replaced.
            guard !isOpen, let launcher = try? ProgramVariables.launcher(),
                let next = try? launcher.next() ?? launcher.seed
            else { continue }
            if next != version, await shell.mayBeInterrupted {
                Log.note(
                    LogLine(level: .info, event: "program", message: "the program \(next) starts instead of \(version)")
                )
                return
            }
        }
    }
}
