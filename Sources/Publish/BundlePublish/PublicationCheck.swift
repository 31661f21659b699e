import BundleFormats
package import BundleValues

/// Waits until a feed's public URL serves the published files.
package struct PublicationCheck: Sendable {
    /// The default wait for caches: four times the maximum age of a channel file.
    package static let standardLimit = Duration.seconds(120)
    private static let longestPause = Duration.seconds(5)
    /// A server that refuses readers for longer than this refuses devices, too. A cache may have a refusal from before the publishing.
    private static let refusalLimit = Duration.seconds(5)

    /// The obstacle between devices and the published files.
    private struct Obstacle {
        let failure: UpdateFailure
        /// Whether the server itself refuses readers. An outdated cache does not cause this.
        var isRefusal = false
    }

    private let base: FetchURL
    private let fetcher: any Fetcher
    /// Used by one check at a time while the caller waits.
    private nonisolated(unsafe) let origin: any FeedLocation
    private let limit: Duration

    /// Compares the feed at `base`, which ends with a slash, with `origin`, for at most `limit`.
    package init(_ base: FetchURL, with fetcher: any Fetcher, origin: any FeedLocation, within limit: Duration) {
        (self.base, self.fetcher, self.origin, self.limit) = (base, fetcher, origin, limit)
    }

    /// Polls `manifest.json`, the channel file of `channel` and `documents`, paths below the feed, until all are the
    /// published ones, then checks the files of `release`, or of all releases if it is nil. Without a channel and a
    /// release, it polls `documents` only. Returns the time that passed. Throws `notPublic` after the limit, or earlier
    /// if the server refuses readers.
    package func run(
        documents: [String], channel: String?, release: SemanticVersion?
    ) async throws -> Duration {
        let start = ContinuousClock.now
        var pause = Duration.milliseconds(250)
        var known = Obstacle(
            failure: UpdateFailure(.networkUnavailable, subject: base.display, "It did not respond in time."))
        while true {
            let rest = limit - (ContinuousClock.now - start)
            let found = try await obstacle(documents, channel: channel, release: release, within: rest, else: known)
            let passed = ContinuousClock.now - start
            guard let found else { return passed }
            guard passed < (found.isRefusal ? min(limit, Self.refusalLimit) : limit) else {
                throw refusal(found)
            }
            known = found
            try await Task.sleep(for: min(pause, limit - passed))
            pause = min(pause * 2, Self.longestPause)
        }
    }

    /// Checks once, for at most `rest`. Returns `known` if the server does not respond in time.
    private func obstacle(
        _ documents: [String], channel: String?, release: SemanticVersion?, within rest: Duration,
        else known: Obstacle
    ) async throws -> Obstacle? {
        try await withThrowingTaskGroup(of: Obstacle?.self) { group in
            group.addTask { await obstacle(documents, channel: channel, release: release) }
            group.addTask {
                try await Task.sleep(for: rest)
                return known
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    /// Returns the obstacle between devices and the publication; nil if there is none.
    private func obstacle(
        _ documents: [String], channel: String?, release: SemanticVersion?
    ) async -> Obstacle? {
        let isOfClients = channel != nil || release != nil
        do {
            if isOfClients, let found = try await check(channel, looksInto: { _ in false }) { return found }
            for name in documents {
                if let found = try await difference(in: name) { return found }
            }
            return isOfClients ? try await check(channel) { release == nil || $0 == release } : nil
        } catch {
            return Obstacle(failure: UpdateFailure(error), isRefusal: (error as? FetchError)?.isRefusal == true)
        }
    }

    /// Returns an obstacle if devices get other bytes than the origin has. A file that the origin does not have is
    /// ignored.
    private func difference(in name: String) async throws -> Obstacle? {
        guard let own = try origin.read(name, maximumBytes: ChannelFormat.maximumBytes)?.bytes else { return nil }
        let url = try base.resolve(relative: name)
        let bytes = try await fetcher.fetchBytes(url, maximumBytes: ChannelFormat.maximumBytes)
        if bytes == own { return nil }
        return Obstacle(
            failure: UpdateFailure(.notPublic, subject: url.display, "It differs from the published file."))
    }

    private func check(_ channel: String?, looksInto: @escaping (SemanticVersion) -> Bool) async throws
        -> Obstacle?
    {
        var check = try FeedCheck(base, with: fetcher, trust: nil, origin: origin, clock: .now)
        check.looksInto = looksInto
        return try await check.run(channel: channel).findings.lazy.compactMap { finding in
            finding.failure.map {
                Obstacle(
                    failure: UpdateFailure($0, subject: finding.subject, finding.message),
                    isRefusal: finding.code == .refused)
            }
        }.first
    }

    private func refusal(_ obstacle: Obstacle) -> UpdateFailure {
        let found = obstacle.failure
        let reason = found.message.hasPrefix(found.subject) ? found.message : "\(found.subject): \(found.message)"
        let what =
            obstacle.isRefusal
            ? "its server refuses readers: let every device read the feed, and check the address"
            : "\(base.display) did not show it to devices within \(DurationText(limit))"
        return UpdateFailure(
            .notPublic, subject: found.subject, "The release is in \(origin.address), but \(what). \(reason)")
    }
}
