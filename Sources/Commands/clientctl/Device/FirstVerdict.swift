import BundleCore
import BundleValues
import ClientShell
import Synchronization

/// Waits for the verdict on the first client that `serve --once` shows.
final class FirstVerdict: Sendable {
    private enum Verdict { case good, failed(FailureCode), unseen(Duration) }

    /// The time for loading the page, in startup timeouts. The browser may still have to start.
    private static let loadTimeouts = 3

    private let isShown = Mutex(false)
    private let verdicts: AsyncStream<Verdict>
    private let given: AsyncStream<Verdict>.Continuation

    init() {
        (verdicts, given) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    func hear(_ event: ShellEvent) {
        if case .launched = event { isShown.withLock { $0 = true } }
        switch event {
        // A client that is not on trial has confirmed an earlier start or is the seed.
        case .confirmed, .launched(_, isTrial: false): given.yield(.good)
        case .rolledBack(_, _, let failure): given.yield(.failed(failure.code))
        case .launched, .updateAvailable, .installed, .failed, .checked, .complained, .unconfirmed, .blank: break
        }
    }

    /// Fails the client if no browser loads the page in time, because such a page neither confirms nor fails.
    func limit(_ timeout: StartupTimeout) async {
        let limit = timeout.duration * Self.loadTimeouts
        do { try await Task.sleep(for: limit) } catch { return }
        if !isShown.withLock({ $0 }) { given.yield(.unseen(limit)) }
    }

    /// Ends the wait for a verdict.
    func stop() { given.finish() }

    /// Returns the exit status of the verdict. A stop before the verdict counts as a failure.
    func status() async -> Int32 {
        for await verdict in verdicts {
            switch verdict {
            case .good: return 0
            case .failed(let code): return code.exitStatus
            case .unseen(let limit):
                Output.warn(
                    "no browser has loaded the page within \(limit): open its address, or raise --startup-timeout"
                )
                return FailureCode.healthFailed.exitStatus
            }
        }
        Output.say("stopped before the client confirmed its start")
        return FailureCode.healthFailed.exitStatus
    }
}
