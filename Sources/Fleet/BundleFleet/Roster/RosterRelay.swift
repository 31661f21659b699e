package import BundleServe
package import BundleValues
import Synchronization

/// Passes the messages of devices to the roster of another host.
package final class RosterRelay: RosterReceiver {
    /// The largest number of messages on their way.
    private static let most = 64

    private let url: FetchURL
    private let fetcher: any Fetcher
    private let running = Mutex(0)

    /// Creates a relay to the roster at `url`. `fetcher` has the token for its host, if it needs one.
    package init(to url: FetchURL, by fetcher: any Fetcher) { (self.url, self.fetcher) = (url, fetcher) }

    package func take(_ message: [UInt8], key: String?, from address: String) async -> RosterVerdict {
        guard enter() else { return .tooMany(retryAfter: 30) }
        defer { running.withLock { $0 -= 1 } }
        do {
            try await fetcher.post(
                FetchRequest.Upload(type: "application/json", bytes: message, deviceKey: key), to: url)
            return .taken
        } catch FetchError.httpStatus(let status, _, let retryAfter) {
            return Self.verdict(status, retryAfter: retryAfter)
        } catch {
            return .unreachable
        }
    }

    private func enter() -> Bool {
        running.withLock { running in
            if running >= Self.most { return false }
            running += 1
            return true
        }
    }

    private static func verdict(_ status: Int, retryAfter: Duration?) -> RosterVerdict {
        switch status {
        case 400, 413: .malformed("the host of the roster answered \(status)")
        case 409: .conflict
        case 429: .tooMany(retryAfter: max(1, Int((retryAfter ?? .seconds(30)).components.seconds)))
        case 507: .full
        default: .unreachable
        }
    }
}
