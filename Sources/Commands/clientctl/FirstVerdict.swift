import BundleCore
import BundleValues
import ClientShell

/// What becomes of the first client that `serve --once` shows.
struct FirstVerdict: Sendable {
    private enum Verdict { case good, failed(FailureCode) }

    private let verdicts: AsyncStream<Verdict>
    private let given: AsyncStream<Verdict>.Continuation

    init() {
        (verdicts, given) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    func hear(_ event: ShellEvent) {
        switch event {
        // What is not on trial has proved itself before, and the seed never has to.
        case .confirmed, .launched(_, isTrial: false): given.yield(.good)
        case .rolledBack(_, _, let failure): given.yield(.failed(failure.code))
        case .launched, .updateAvailable, .failed, .checked, .complained: break
        }
    }

    /// Nothing more is waited for.
    func stop() { given.finish() }

    /// The exit status that it means, once it is given; a stop that comes before is no good word.
    func status() async -> Int32 {
        for await verdict in verdicts {
            if case .failed(let code) = verdict { return code.exitStatus }
            return 0
        }
        Output.say("clientctl: stopped before the client confirmed its start")
        return FailureCode.healthFailed.exitStatus
    }
}
