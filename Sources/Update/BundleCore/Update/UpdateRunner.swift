import BundleValues

/// The checks of one source in one process: several may be asked for at once.
///
/// Every check asks for the newest offer. The same one as that of a running update joins it; another one ends it and takes
/// its place, so that a device does not finish what its server has withdrawn (METEOR section 3.2, a and e).
package actor UpdateRunner<Source: UpdateSource> {
    private struct Running {
        let version: ClientVersion
        let task: Task<UpdateOutcome, any Error>
    }

    private let updater: Updater<Source>
    /// The last update; when it has ended, too: whoever waited for one that it replaced may hear of that later.
    private var last: Running?
    private var isRunning = false
    /// How often the channel asked to be checked when it last answered; nil where it did not say.
    package private(set) var pace: PollPace?

    /// Runs `updater`.
    package init(_ updater: Updater<Source>) { self.updater = updater }

    /// Checks, and brings what is offered; returns when that, or what has taken its place, is done.
    package func check() async throws -> UpdateOutcome {
        let offer = try await updater.latestOffer()
        pace = offer.pace
        // A recall does not wait for a download.
        if isRunning, let feed = offer.feed { try updater.record(feed) }
        if isRunning, let last, last.version == offer.clientVersion { return try await outcome(of: last) }
        let replaced = isRunning ? last?.task : nil
        replaced?.cancel()
        return try await outcome(of: start(offer, after: replaced))
    }

    /// What is replaced knows what it waits for at once, and two updates never work on the store at one time.
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
            // Whoever waits and is cancelled, because the shell ends, ends the update: a server may take very long to answer.
            let result = await withTaskCancellationHandler {
                await task.result
            } onCancel: {
                task.cancel()
            }
            // However it failed: a connection that is cut because another offer came may say anything.
            if let last, last.task != task, !Task.isCancelled, case .failure = result {
                awaited = last
                continue
            }
            if last?.task == task { isRunning = false }
            return try result.get()
        }
    }
}
