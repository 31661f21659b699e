import BundleCore
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
    private let feed: FeedAddress
    private let failures = Mutex<[FetchURL: Failure]>([:])

    init(of feed: FeedAddress, fetcher: any Fetcher) {
        self.feed = feed
        self.fetcher = fetcher
    }

    /// The addresses of one file on mirrors, in the order of their use.
    struct Copies: Sendable {
        let all: [(mirror: FetchURL, url: FetchURL)]
        let mirrors: Mirrors

        /// Mirrors that failed lately are left out.
        var usable: [(mirror: FetchURL, url: FetchURL)] { all.filter { !mirrors.rests($0.mirror) } }
    }

    /// Returns the addresses of the file at `url` of the feed on `roots`; none unless it lies below `releases/`.
    func copies(of url: FetchURL, on roots: [FetchURL]) -> Copies {
        guard !roots.isEmpty, let path = Self.path(of: url, in: feed) else { return Copies(all: [], mirrors: self) }
        return Copies(
            all: roots.compactMap { root in (try? root.resolve(relative: path)).map { (root, $0) } }, mirrors: self)
    }

    /// Returns the path of `url` below the root of `feed`, such as `releases/1.5.0/client.tar.zst`.
    static func path(of url: FetchURL, in feed: FeedAddress) -> String? {
        let up =
            switch feed {
            case .manifest: "./"
            case .channel: "../"
            }
        guard let root = try? feed.url.resolve(relative: up).description, url.description.hasPrefix(root) else {
            return nil
        }
        let path = url.description.dropFirst(root.utf8.count)
        return path.hasPrefix("releases/") && !path.contains("?") ? String(path) : nil
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
