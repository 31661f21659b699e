package import BundleValues
import Synchronization

/// Passes the messages of devices to the roster of another host.
package final class RosterRelay: Sendable {
    /// The largest number of messages on their way.
    private static let most = 64

    private let url: FetchURL
    private let fetcher: any Fetcher
    private let passesTokens: Bool
    private let stopwatch: Stopwatch
    private let running = Mutex(0)
    /// The host accepts 5 messages a second from this relay. One sender gets a fifth of them.
    private let allowance = Mutex(AddressAllowance(perSecond: 1, burst: 10))

    /// Creates a relay to the roster at `url`. With `passesTokens`, each message goes with the token of its sender, and `fetcher` has none:
    /// a relay that admits everybody must not lend its token. A token is passed only inside TLS, or to this machine.
    package init(
        to url: FetchURL, by fetcher: any Fetcher, passesTokens: Bool, environment: Environment = Environment()
    ) {
        (self.url, self.fetcher) = (url, fetcher)
        self.passesTokens = passesTokens && (url.scheme == .https || url.origin.isThisMachine)
        stopwatch = Stopwatch(environment.clock)
    }

    func take(_ message: [UInt8], isPicture: Bool = false, from sender: RosterMessenger) async -> RosterVerdict {
        guard allowance.withLock({ $0.consume(sender.address, at: stopwatch.elapsed) }), enter() else {
            return .tooMany(retryAfter: 30)
        }
        defer { running.withLock { $0 -= 1 } }
        do {
            try await fetcher.post(
                FetchRequest.Upload(
                    type: "application/json", bytes: message, deviceKey: sender.key,
                    authorization: passesTokens ? sender.authorization : nil),
                to: isPicture ? try PicturePost.address(of: url) : url)
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
        case 401: .unauthorized
        case 404: .unwanted
        case 409: .conflict
        case 429: .tooMany(retryAfter: max(1, Int((retryAfter ?? .seconds(30)).components.seconds)))
        case 507: .full
        default: .unreachable
        }
    }
}
