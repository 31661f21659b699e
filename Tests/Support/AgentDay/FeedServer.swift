import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import Synchronization

/// A fault of the server.
enum Outage: Sendable, Equatable {
    /// The response 503 with a Retry-After in seconds.
    case busy(retryAfter: Int)
    /// The server closes the connection without a response.
    case hangsUp
    /// The server sends the head of a response and stops.
    case hangs

    /// The code of the failed check.
    var code: FailureCode {
        if case .busy = self { .httpStatus } else { .networkUnavailable }
    }

    var name: String {
        switch self {
        case .busy: "503"
        case .hangsUp: "hang-up"
        case .hangs: "hang"
        }
    }
}

/// An HTTP server of a feed folder that can have outages.
final class FeedServer: Sendable {
    private final class Weather: Sendable {
        let outage = Mutex<Outage?>(nil)
    }

    private let weather = Weather()
    private let server: LoopbackServer

    init(feed: String) throws {
        let folder = try Directory.open(feed)
        server = try LoopbackServer { [weather] request in
            let bytes = try? folder.contents(String(request.target.dropFirst()), maximumBytes: 1 << 24)
            let route = bytes.map { Route($0) } ?? Route(Array("nothing here".utf8), status: 404)
            return Self.route(route, weather.outage.withLock { $0 })
        }
    }

    var outage: Outage? { weather.outage.withLock { $0 } }

    func set(_ outage: Outage?) { weather.outage.withLock { $0 = outage } }

    func source() throws -> FeedAddress { .channel(try server.url("/channels/\(Publisher.channel).json")) }

    private static func route(_ route: Route, _ outage: Outage?) -> Route {
        switch outage {
        case nil: route
        case .busy(let seconds): Route(status: 503).with { $0.headers = [("Retry-After", "\(seconds)")] }
        case .hangsUp: Route().with { $0.raw = [] }
        case .hangs: Route([0x7B]).with { $0.pace = .stall(after: 0) }
        }
    }
}
