import BundleFormats
import ArchiveSource
import BundleTesting
import BundleValues
import Synchronization

/// The web server of a feed without a network, which records its requests.
final class FakeUpstream: Fetcher {
    /// A request.
    struct Poll: Equatable {
        let path: String
        let tag: String?
        /// The time since the start of the clock.
        let moment: Duration
    }

    private struct State {
        var documents: [String: [UInt8]] = [:]
        var failure: FetchError?
        var polls: [Poll] = []
    }

    private let clock: ManualClock
    private let state = Mutex(State())

    init(_ clock: ManualClock) { self.clock = clock }

    var polls: [Poll] { state.withLock { $0.polls } }

    /// The requests for a channel file in order.
    func polls(of channel: String) -> [Poll] { polls.filter { $0.path == "/feed/channels/\(channel).json" } }

    func publish(_ sequence: Int, _ channel: String = "stable", as name: String? = nil) throws {
        let document = ChannelDocument(
            appId: nil, channel: channel, sequence: sequence, issuedAt: try Timestamp(parsing: "2026-01-01T00:00:00Z"),
            expires: try Timestamp(parsing: "2027-01-01T00:00:00Z"))
        put(ChannelFormat.envelope(document).document, name ?? channel)
    }

    func put(_ bytes: [UInt8]?, _ channel: String) {
        state.withLock { $0.documents["/feed/channels/\(channel).json"] = bytes }
    }

    /// Fails all further requests; nil ends that.
    func fail(_ error: FetchError?) { state.withLock { $0.failure = error } }

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        let found = try state.withLock { state in
            state.polls.append(
                Poll(path: request.url.path, tag: request.knownTag, moment: clock.now.sinceStart))
            if let failure = state.failure { throw failure }
            guard let found = state.documents[request.url.path] else {
                throw FetchError.httpStatus(404, request.url, retryAfter: nil)
            }
            return found
        }
        let tag = "\"\(found.count)-\(found.reduce(5381 as UInt32) { $0 &* 33 &+ UInt32($1) })\""
        if tag == request.knownTag { return FetchHead(status: 304, effectiveURL: request.url, entityTag: tag) }
        let head = FetchHead(status: 200, effectiveURL: request.url, entityTag: tag)
        try sink.begin(head)
        try found.withUnsafeBytes { try sink.receive($0) }
        return head
    }
}
