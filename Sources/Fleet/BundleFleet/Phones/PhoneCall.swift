import BundleFormats
import BundleServe
import BundleValues

/// A request of an updater plugin on a phone. Guide/reference/wire-formats.md specifies the contracts.
enum PhoneCall: Sendable, Equatable {
    /// A check of Capgo's plugin for updates in a channel.
    case update(channel: String)
    /// Statistics of Capgo's plugin; nil for the channel that each event names.
    case statistics(channel: String?)
    /// A check of Capawesome's plugin; nil for the channel that its query names.
    case latest(channel: String?)

    /// The largest body: that of a check, and that of the 200 events that Capgo's plugin sends at most.
    var maximumBytes: Int {
        switch self {
        case .update: 16 << 10
        case .statistics: 128 << 10
        case .latest: 0
        }
    }
}

enum PhoneAnswer: Sendable, Equatable {
    case object(JSONObject)
    /// There is no bundle for the phone, in the contract of Capawesome's plugin.
    case none
    /// The request is invalid, for this reason.
    case malformed(String)
    /// The phone may send the same message after this number of seconds.
    case later(seconds: Int)
}

/// The target of a phone's request, by its path alone.
enum PhoneRoute: Equatable {
    case call(PhoneCall)
    /// No plugin sends such a request.
    case unknown

    private static let folder = Array("phones/".utf8)
    private static let capawesome = Array("v1/apps/".utf8)

    /// Returns nil for a path that does not belong to phones.
    init?(_ method: RequestHead.Method, _ path: RequestPath) {
        guard path.bytes.starts(with: Self.folder) || path.bytes.starts(with: Self.capawesome) else { return nil }
        let parts = String(decoding: path.bytes, as: UTF8.self).split(separator: "/").map(String.init)
        let isPost = method == .post
        let reads = method == .get || method == .head
        switch (parts.count, parts.dropFirst().first) {
        case (3, "updates") where isPost && Self.isChannel(parts[2]): self = .call(.update(channel: parts[2]))
        case (2, "stats") where isPost: self = .call(.statistics(channel: nil))
        case (3, "stats") where isPost && Self.isChannel(parts[2]): self = .call(.statistics(channel: parts[2]))
        case (3, "capawesome") where reads && Self.isChannel(parts[2]): self = .call(.latest(channel: parts[2]))
        // The path that the plugin itself requests: /v1/apps/ID/bundles/latest.
        case (5, "apps") where reads && parts[3] == "bundles" && parts[4] == "latest":
            self = .call(.latest(channel: nil))
        default: self = .unknown
        }
    }

    private static func isChannel(_ name: String) -> Bool { ChannelFileName.isName(name) }
}

extension FeedService {
    /// Answers a phone. A request that no plugin sends gets a 400, whatever is wrong with it.
    nonisolated(nonsending) func answer(
        _ route: PhoneRoute, _ request: Request, by phones: PhoneDesk
    ) async -> Response {
        guard case .call(let call) = route, request.head.bodyLength ?? 0 <= call.maximumBytes,
            !request.has(.expect) || request.expectsContinue
        else { return Response.refusal(.badRequest).closing }
        let answer: PhoneAnswer
        do {
            let bytes = request.hasBody ? try await request.body.read() : Array(request.query.dropFirst().utf8)
            answer = try await elsewhere { await phones.answer(call, bytes) }
        } catch is NoBufferSpace {
            answer = .later(seconds: 30)
        } catch {
            return .refusal(.badRequest)
        }
        switch answer {
        case .object(let object): return .json(object, caching: Caching.never)
        case .none: return .refusal(.notFound)
        case .malformed(let problem):
            return .error(Status.badRequest.rawValue, code: "malformed", message: problem)
        // Capgo's plugin drops statistics after 400, and asks no more after 429.
        case .later(let seconds): return .refusal(.unavailable, fields: "Retry-After: \(seconds)\r\n")
        }
    }
}
