import BundleCore
package import BundleValues

/// Waits until a feed's public URL shows what was published, as devices see it.
package struct PublicWatch: Sendable {
    /// How long caches may need by default: four times what they are told to keep a document for.
    package static let standardLimit = Duration.seconds(120)
    private static let longestPause = Duration.seconds(5)

    private let base: FetchURL
    private let fetcher: any Fetcher
    /// One look at a time uses it, and whoever asked waits meanwhile.
    private nonisolated(unsafe) let origin: any FeedPlace
    private let limit: Duration

    /// Compares the feed at `base`, which ends with a slash, with `origin`, for at most `limit`.
    package init(_ base: FetchURL, with fetcher: any Fetcher, origin: any FeedPlace, within limit: Duration) {
        (self.base, self.fetcher, self.origin, self.limit) = (base, fetcher, origin, limit)
    }

    /// Looks again and again at `manifest.json` and the document of `channel`, and when they are those that were published, at the files of
    /// `release`, those of all releases where it is nil. How long it took; throws `notPublic` after the limit.
    package func run(channel: String?, release: SemanticVersion?) async throws -> Duration {
        let start = ContinuousClock.now
        var pause = Duration.milliseconds(250)
        var known = UpdateFailure(.networkUnavailable, subject: base.display, "It does not answer.")
        while true {
            let rest = limit - (ContinuousClock.now - start)
            let found = try await obstacle(channel, release, within: rest, else: known)
            let passed = ContinuousClock.now - start
            guard let found else { return passed }
            guard passed < limit else { throw refusal(found) }
            known = found
            try await Task.sleep(for: min(pause, limit - passed))
            pause = min(pause * 2, Self.longestPause)
        }
    }

    /// The same, by a look that ends after `rest` with what is `known`, however silent the server is.
    private func obstacle(
        _ channel: String?, _ release: SemanticVersion?, within rest: Duration, else known: UpdateFailure
    ) async throws -> UpdateFailure? {
        try await withThrowingTaskGroup(of: UpdateFailure?.self) { group in
            group.addTask { await obstacle(channel, release) }
            group.addTask {
                try await Task.sleep(for: rest)
                return known
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    /// What keeps devices from what was published; nil for nothing.
    private func obstacle(_ channel: String?, _ release: SemanticVersion?) async -> UpdateFailure? {
        do {
            if let found = try await look(channel, { _ in false }) { return found }
            return try await look(channel) { release == nil || $0 == release }
        } catch {
            return UpdateFailure(error)
        }
    }

    private func look(_ channel: String?, _ looksInto: @escaping (SemanticVersion) -> Bool) async throws
        -> UpdateFailure?
    {
        var check = FeedCheck(base, with: fetcher, trust: nil, origin: origin, clock: .now)
        check.looksInto = looksInto
        return try await check.run(channel: channel).findings.lazy.compactMap { finding in
            finding.code.failure.map { UpdateFailure($0, subject: finding.subject, finding.message) }
        }.first
    }

    private func refusal(_ found: UpdateFailure) -> UpdateFailure {
        UpdateFailure(
            .notPublic, subject: found.subject,
            "It is published to \(origin.address), but \(base.display) did not show it to devices within \(DurationText(limit)). "
                + "\(found.subject): \(found.message)")
    }
}
