import BundleCore
import BundleDisk
import BundleSigning
import BundleValues
import Synchronization

/// The copies of a feed from which a device downloads archives and deltas before it asks the feed.
///
/// A mirror is not trusted: each file from it is compared with a signed digest, and documents come from the feed.
final class Mirrors: Sendable {
    /// The pauses of a mirror after one failure, and after repeated failures.
    private static let backoff = Backoff(from: .seconds(60), upTo: .seconds(6 * 3600))

    private struct Failure {
        var count: Int
        var restsUntil: SuspendingClock.Instant
    }

    /// Fetches from mirrors, without a token and with short timeouts.
    let fetcher: any Fetcher
    /// The time that all mirrors together may cost a download.
    let limits: MirrorLimits
    private let feed: FeedAddress
    private let failures = Mutex<[FetchURL: Failure]>([:])

    init(of feed: FeedAddress, fetcher: any Fetcher, limits: MirrorLimits) {
        self.feed = feed
        self.fetcher = fetcher
        self.limits = limits
    }

    /// The address of a file on a mirror.
    struct Copy: Sendable {
        let mirror: FetchURL
        let url: FetchURL
    }

    /// Returns the addresses of the file at `url` of the feed on `roots`, in the order of their use; none unless it lies below
    /// `releases/`. Mirrors that failed lately are left out.
    func copies(of url: FetchURL, on roots: [FetchURL]) -> [Copy] {
        guard !roots.isEmpty, let path = Self.path(of: url, in: feed) else { return [] }
        return roots.filter { !rests($0) }.compactMap { root in
            (try? root.resolve(relative: path)).map { Copy(mirror: root, url: $0) }
        }
    }

    /// Returns the path of `url` below the root of `feed`, such as `releases/1.5.0/client.tar.zst`.
    static func path(of url: FetchURL, in feed: FeedAddress) -> String? {
        let up =
            switch feed {
            case .manifest: "./"
            case .channel: "../"
            }
        // A mirror must not get the query of the feed, which can be a secret.
        let address = url.withoutQuery
        guard let root = try? feed.url.resolve(relative: up).description, address.hasPrefix(root) else { return nil }
        let path = address.dropFirst(root.utf8.count)
        return path.hasPrefix("releases/") ? String(path) : nil
    }

    private func rests(_ mirror: FetchURL) -> Bool {
        failures.withLock { failures in failures[mirror].map { $0.restsUntil > .now } ?? false }
    }

    /// Records the end of a download from `mirror`. After a failure the mirror rests, each time longer.
    func ended(_ mirror: FetchURL, isFailure: Bool) {
        failures.withLock { failures in
            guard isFailure else {
                failures[mirror] = nil
                return
            }
            let count = (failures[mirror]?.count ?? 0) + 1
            failures[mirror] = Failure(
                count: count, restsUntil: .now.advanced(by: Self.backoff.delay(after: count - 1)))
        }
    }
}

/// The time that mirrors may cost a device.
package struct MirrorLimits: Sendable {
    /// The longest time that all mirrors together may cost a download.
    package var longest: Duration = .seconds(60)
    /// The same for an urgent release.
    package var longestIfUrgent: Duration = .seconds(15)
    /// The rate in bytes per second at which a mirror costs nothing.
    package var rate = 250_000

    package init() {}
}

/// Decides when a device leaves mirrors for the feed. A mirror costs the time that it takes, without the time that its bytes take at the
/// rate of the limits. Pure.
struct MirrorPace: Sendable {
    private let rate: Double
    private let longest: Duration
    /// The cost of the mirrors before this one.
    private var spent = Duration.zero

    /// `rate` is the limit on the rate of the device, under which no mirror can be faster.
    init(_ limits: MirrorLimits, isUrgent: Bool, rate: Int?) {
        longest = isUrgent ? limits.longestIfUrgent : limits.longest
        self.rate = Double(max(1, min(limits.rate, (rate ?? .max) / 2)))
    }

    /// The time that the mirrors may still cost.
    var left: Duration { max(.zero, longest - spent) }

    /// Returns whether a mirror is left that has sent `received` bytes after `elapsed`, of which the first one arrived after `silence`.
    /// `missing` is the number of bytes that were missing at its start; nil if it is unknown.
    ///
    /// After a sixth of the time, a mirror is also left if it will cost too much at its present rate.
    func leaves(after elapsed: Duration, silence: Duration, received: Int, missing: Int?) -> Bool {
        if cost(elapsed, received) >= left { return true }
        let sending = elapsed - silence
        guard let missing, received > 0, sending >= longest / 6 else { return false }
        return cost(silence + sending * (Double(missing) / Double(received)), missing) >= left
    }

    /// Adds the cost of a mirror that was left or failed.
    mutating func spend(_ elapsed: Duration, received: Int) { spent += max(.zero, cost(elapsed, received)) }

    private func cost(_ elapsed: Duration, _ received: Int) -> Duration {
        elapsed - .seconds(Double(received) / rate)
    }
}

/// The mirrors that sent other bytes than the signed ones. They are left out for a day, also by later runs, because a lie costs all bytes of a
/// file.
struct MirrorMemory {
    /// The name suffix of the record of a mirror. The digest before it is that of its URL.
    static let suffix = ".mirror"
    private static let seconds = 86_400

    /// The folder of downloads.
    let folder: Directory
    let now: Timestamp

    /// Returns whether `mirror` sent other bytes within a day. A record of the future is not used: a clock was wrong.
    func excludes(_ mirror: FetchURL) -> Bool {
        guard let name = try? Self.name(mirror), let bytes = try? folder.contents(name, maximumBytes: 64),
            let time = try? Timestamp(parsing: String(decoding: bytes, as: UTF8.self))
        else { return false }
        return (0..<Self.seconds).contains(now.secondsSinceEpoch - time.secondsSinceEpoch)
    }

    /// Records that `mirror` sent other bytes. A record that cannot be written is ignored, since the download does not need it.
    func remember(_ mirror: FetchURL) {
        guard let name = try? Self.name(mirror) else { return }
        try? folder.replaceFile(name, with: Array(now.description.utf8), mode: 0o600)
    }

    private static func name(_ mirror: FetchURL) throws -> String {
        try SHA256Digest.of(Array(mirror.description.utf8)).hex + suffix
    }
}

/// Runs downloads of one release under the policies of the device and its channel.
struct DownloadAdmission: Sendable {
    let gate: FetchGate
    let terms: FetchTerms
    let mirrors: Mirrors
    /// The roots of mirrors.
    let roots: [FetchURL]
    let environment: Environment

    /// Downloads a file, from mirrors first. Throws `FetchPause` if it has to wait.
    ///
    /// A mirror that fails, sends other bytes or costs too much time is left for the next one, and at last for the feed, which
    /// continues the part.
    func run(_ download: ArchiveDownload, load: FetchRule.Load, at url: FetchURL) async throws -> VerifiedArchive {
        let rate = gate.policy.joined(with: terms.policy, isUrgent: terms.isUrgent).rate
        var pace = MirrorPace(mirrors.limits, isUrgent: terms.isUrgent, rate: rate)
        let memory = MirrorMemory(folder: download.downloads, now: environment.now())
        for copy in mirrors.copies(of: url, on: roots) where !memory.excludes(copy.mirror) {
            // The budget has to suffice for the feed, too, after a mirror that sends other bytes.
            let both = download.missingBytes.map { $0.addingReportingOverflow(download.size ?? $0).partialValue }
            guard pace.left > .zero, await gate.wait(terms, load: load, bytes: both) == nil else { break }
            let (start, before) = (SuspendingClock.now, download.receivedBytes)
            do {
                let pace = pace
                let archive = try await gate.admit(terms, load: load, bytes: download.missingBytes) {
                    try await run(download, from: copy, within: pace)
                }
                mirrors.ended(copy.mirror, isFailure: false)
                return archive
            } catch let error where error is CancellationError || error is DiskError || error is FetchPause {
                throw error
            } catch {
                if Self.isLie(error) { memory.remember(copy.mirror) }
                mirrors.ended(copy.mirror, isFailure: true)
                pace.spend(start.duration(to: .now), received: download.receivedBytes - before)
            }
        }
        return try await gate.admit(terms, load: load, bytes: download.missingBytes) { try await download.run() }
    }

    private static func isLie(_ error: any Error) -> Bool {
        if case FetchError.tooLarge = error { return true }
        return [.digestMismatch, .sizeMismatch].contains(UpdateFailure(error).code)
    }

    /// Downloads a copy. Throws `FetchError.tooSlow` when the mirror is left.
    private func run(
        _ download: ArchiveDownload, from copy: Mirrors.Copy, within pace: MirrorPace
    ) async throws -> VerifiedArchive {
        let (start, before, missing) = (SuspendingClock.now, download.receivedBytes, download.missingBytes)
        return try await withThrowingTaskGroup(of: VerifiedArchive?.self) { group in
            group.addTask {
                try await waiting(for: pace.left) { try await download.run(at: copy.url, with: mirrors.fetcher) }
            }
            group.addTask {
                var silence = Duration.zero
                while true {
                    let (elapsed, received) = (start.duration(to: .now), download.receivedBytes - before)
                    if received == 0 { silence = elapsed }
                    if pace.leaves(after: elapsed, silence: silence, received: received, missing: missing) {
                        return nil
                    }
                    try await Task.sleep(for: mirrors.limits.longestIfUrgent / 60)
                }
            }
            defer { group.cancelAll() }
            if let archive = try await group.next() ?? nil { return archive }
            group.cancelAll()
            // The download may have ended at the same time.
            if case .success(let archive?)? = await group.nextResult() { return archive }
            try Task.checkCancellation()
            throw FetchError.tooSlow(copy.url)
        }
    }

    /// Repeats `download` while a cache answers that it is fetching the file (503 with Retry-After), for at most `limit`.
    private func waiting(
        for limit: Duration, _ download: () async throws -> VerifiedArchive
    ) async throws -> VerifiedArchive {
        let end = SuspendingClock.now.advanced(by: limit)
        while true {
            do {
                return try await download()
            } catch FetchError.httpStatus(503, let url, let wait?) {
                let wait = max(wait, .seconds(1))
                guard SuspendingClock.now.advanced(by: wait) < end else {
                    throw FetchError.httpStatus(503, url, retryAfter: wait)
                }
                try await Task.sleep(for: wait)
            }
        }
    }
}
