import BundleCore
import ClientShell

/// What a command does with one channel, whatever kind it is.
struct ChannelWork {
    let check: () async throws -> CheckAnswer
    let update: () async throws -> UpdateOutcome
    /// The same for a shell, which may ask again while an update runs.
    let step: UpdateStep

    init<Channel: UpdateChannel>(_ updater: Updater<Channel>) {
        check = {
            let (version, decision) = try await updater.check()
            switch decision.verdict {
            case .wrongApp, .unsuitable:
                if let failure = decision.verdict.failure(of: version) { throw failure }
            default: break
            }
            return CheckAnswer(version: version, decision: decision)
        }
        update = { try await updater.update() }
        let runner = UpdateRunner(updater)
        step = { _ = try await runner.check() }
    }
}
