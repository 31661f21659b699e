import ArchiveSource
import BundleCore
package import BundleValues

/// Waits until a feed's public URL shows what was published, as devices see it.
package struct PublicationCheck: Sendable {
    /// How long caches may need by default: four times what they are told to keep a document for.
    package static let standardLimit = Duration.seconds(120)
    private static let longestPause = Duration.seconds(5)

    private let base: FetchURL
    private let fetcher: any Fetcher
    /// One look at a time uses it, and whoever asked waits meanwhile.
    private nonisolated(unsafe) let origin: any FeedLocation
    private let limit: Duration

    /// Compares the feed at `base`, which ends with a slash, with `origin`, for at most `limit`.
    package init(_ base: FetchURL, with fetcher: any Fetcher, origin: any FeedLocation, within limit: Duration) {
        (self.base, self.fetcher, self.origin, self.limit) = (base, fetcher, origin, limit)
    }

    /// Looks again and again at `manifest.json` and the document of `channel`, then at `documents`, paths below the feed, and when all are
    /// those that were published, at the files of `release`, those of all releases where it is nil. Where neither a channel nor a release is
    /// named, at `documents` alone. How long it took; throws `notPublic` after the limit.
    package func run(
        documents: [String], channel: String?, release: SemanticVersion?
    ) async throws -> Duration {
        let start = ContinuousClock.now
        var pause = Duration.milliseconds(250)
        var known = UpdateFailure(.networkUnavailable, subject: base.display, "It did not answer in time.")
        while true {
            let rest = limit - (ContinuousClock.now - start)
            let found = try await obstacle(documents, channel, release, within: rest, else: known)
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
        _ documents: [String], _ channel: String?, _ release: SemanticVersion?, within rest: Duration,
        else known: UpdateFailure
    ) async throws -> UpdateFailure? {
        try await withThrowingTaskGroup(of: UpdateFailure?.self) { group in
            group.addTask { await obstacle(documents, channel, release) }
            group.addTask {
                try await Task.sleep(for: rest)
                return known
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    /// What keeps devices from what was published; nil for nothing.
    private func obstacle(
        _ documents: [String], _ channel: String?, _ release: SemanticVersion?
    ) async -> UpdateFailure? {
        let isOfClients = channel != nil || release != nil
        do {
            if isOfClients, let found = try await look(channel, { _ in false }) { return found }
            for name in documents {
                if let found = try await difference(in: name) { return found }
            }
            return isOfClients ? try await look(channel) { release == nil || $0 == release } : nil
        } catch {
            return UpdateFailure(error)
        }
    }

    /// nil where devices get the bytes of the origin, or where that has no such file.
    private func difference(in name: String) async throws -> UpdateFailure? {
        guard let own = try origin.read(name, maximumBytes: ChannelFormat.maximumBytes)?.bytes else { return nil }
        let url = try base.resolve(relative: name)
        let bytes = try await fetcher.fetchBytes(url, maximumBytes: ChannelFormat.maximumBytes)
        if bytes == own { return nil }
        return UpdateFailure(.notPublic, subject: url.display, "It is another one than was published.")
    }

    private func look(_ channel: String?, _ looksInto: @escaping (SemanticVersion) -> Bool) async throws
        -> UpdateFailure?
    {
        var check = try FeedCheck(base, with: fetcher, trust: nil, origin: origin, clock: .now)
        check.looksInto = looksInto
        return try await check.run(channel: channel).findings.lazy.compactMap { finding in
            finding.code.failure.map { UpdateFailure($0, subject: finding.subject, finding.message) }
        }.first
    }

    private func refusal(_ found: UpdateFailure) -> UpdateFailure {
        let reason = found.message.hasPrefix(found.subject) ? found.message : "\(found.subject): \(found.message)"
        return UpdateFailure(
            .notPublic, subject: found.subject,
            "It is published to \(origin.address), but \(base.display) did not show it to devices within \(DurationText(limit)). "
                + reason)
    }
}
