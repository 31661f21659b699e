import BundleCore
import BundleValues
import ClientShell
import Synchronization

/// What becomes of the first client that `serve --once` shows.
final class FirstVerdict: Sendable {
    private enum Verdict { case good, failed(FailureCode), unseen(Duration) }

    /// Startup timeouts that a browser has to load the page: it may have to start first.
    private static let patience = 3

    private let isShown = Mutex(false)
    private let verdicts: AsyncStream<Verdict>
    private let given: AsyncStream<Verdict>.Continuation

    init() {
        (verdicts, given) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    func hear(_ event: ShellEvent) {
        if case .launched = event { isShown.withLock { $0 = true } }
        switch event {
        // What is not on trial has proved itself before, and the seed never has to.
        case .confirmed, .launched(_, isTrial: false): given.yield(.good)
        case .rolledBack(_, _, let failure): given.yield(.failed(failure.code))
        case .launched, .updateAvailable, .failed, .checked, .complained, .unconfirmed: break
        }
    }

    /// A page that nobody loads can neither confirm nor fail: this long is waited for a browser.
    func limit(_ timeout: StartupTimeout) async {
        let patience = timeout.duration * Self.patience
        do { try await Task.sleep(for: patience) } catch { return }
        if !isShown.withLock({ $0 }) { given.yield(.unseen(patience)) }
    }

    /// Nothing more is waited for.
    func stop() { given.finish() }

    /// The exit status that it means, once it is given; a stop that comes before is no good word.
    func status() async -> Int32 {
        for await verdict in verdicts {
            switch verdict {
            case .good: return 0
            case .failed(let code): return code.exitStatus
            case .unseen(let patience):
                Output.say(
                    "clientctl: no browser has loaded the page within \(patience): open its address, or raise --startup-timeout"
                )
                return FailureCode.healthFailed.exitStatus
            }
        }
        Output.say("clientctl: stopped before the client confirmed its start")
        return FailureCode.healthFailed.exitStatus
    }
}
