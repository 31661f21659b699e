import BundleCore
import ClientShell

/// What a command does with one channel, whatever kind it is.
struct ChannelWork {
    let check: (_ explains: Bool) async throws -> CheckAnswer
    let update: () async throws -> UpdateOutcome
    /// The same for a shell, which may ask again while an update runs.
    let step: UpdateStep

    init<Channel: UpdateChannel>(_ updater: Updater<Channel>) {
        check = { explains in
            let (version, decision, others) = try await updater.check(explaining: explains)
            switch decision.verdict {
            case .wrongApp, .unsuitable:
                if let failure = decision.verdict.failure(of: version) { throw failure }
            default: break
            }
            return CheckAnswer(version: version, decision: decision, others: others)
        }
        update = { try await updater.update() }
        let runner = UpdateRunner(updater)
        step = { await .of(pace: { await runner.pace }) { _ = try await runner.check() } }
    }
}
