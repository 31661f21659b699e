import BundleValues

/// Runs the checks of one source in one process, which may be requested concurrently.
///
/// Every check asks for the newest offer. If an update to the same offer is running, the check joins it. An update to
/// another offer is cancelled and replaced, so that a device does not finish a version that its server has withdrawn
/// (METEOR section 3.2, a and e).
package actor UpdateRunner<Source: UpdateSource> {
    private struct Running {
        let version: ClientVersion
        let task: Task<UpdateOutcome, any Error>
    }

    private let updater: Updater<Source>
    /// The last update, kept after its end for callers that wait for an update it replaced.
    private var last: Running?
    private var isRunning = false
    /// The check interval of the channel's last answer; nil if it had none.
    package private(set) var pace: PollPace?

    package init(_ updater: Updater<Source>) { self.updater = updater }

    /// Checks for an offer and installs it. Returns when that update, or the one that replaced it, has ended.
    package func check() async throws -> UpdateOutcome {
        let offer = try await updater.latestOffer()
        pace = offer.pace
        // A recall takes effect without waiting for a running download.
        if isRunning, let feed = offer.feed { try updater.record(feed) }
        if isRunning, let last, last.version == offer.clientVersion { return try await outcome(of: last) }
        let replaced = isRunning ? last?.task : nil
        replaced?.cancel()
        return try await outcome(of: start(offer, after: replaced))
    }

    /// The new task waits for the replaced one, so two updates never work on the store at once.
    private func start(_ offer: Source.Offer, after replaced: Task<UpdateOutcome, any Error>?) -> Running {
        let task = Task { [updater] in
            _ = await replaced?.result
            try Task.checkCancellation()
            return try await updater.update(following: offer)
        }
        let started = Running(version: offer.clientVersion, task: task)
        last = started
        isRunning = true
        return started
    }

    private func outcome(of first: Running) async throws -> UpdateOutcome {
        var awaited = first
        while true {
            let task = awaited.task
            // Cancelling a caller that waits, such as an ending shell, cancels the update, whose server may take very
            // long to respond.
            let result = await withTaskCancellationHandler {
                await task.result
            } onCancel: {
                task.cancel()
            }
            // A replaced update may fail with any error.
            if let last, last.task != task, !Task.isCancelled, case .failure = result {
                awaited = last
                continue
            }
            if last?.task == task { isRunning = false }
            return try result.get()
        }
    }
}
