import NIOCore
import NIOHTTP1

/// Checks requests before NIO's upgrade handler, which loses the head of a request that it does not upgrade. It answers requests
/// that the rule rejects, and removes the upgrade from requests for other paths.
final class UpgradeFilter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private let rule: UpgradeRule
    private var isFirst = true
    private var refusal: HTTPResponseStatus?

    init(_ rule: UpgradeRule) { self.rule = rule }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        if case .head(var head) = part {
            let verdict = rule.verdict(on: head)
            refusal = Self.refusal(verdict, isFirst: isFirst)
            isFirst = false
            if verdict == .notOurs && head.headers.contains(name: "Upgrade") {
                head.headers.remove(name: "Upgrade")
                // NIO's decoder reads nothing after a request for an upgrade.
                head.headers.replaceOrAdd(name: "Connection", value: "close")
                return context.fireChannelRead(wrapInboundOut(.head(head)))
            }
        }
        guard let refusal else { return context.fireChannelRead(data) }
        // The pipeline would lose a response before the end of the request.
        if case .end = part { context.channel.answer(refusal) }
    }

    private static func refusal(_ verdict: UpgradeRule.UpgradeDecision, isFirst: Bool) -> HTTPResponseStatus? {
        switch verdict {
        case .refused(let status): HTTPResponseStatus(statusCode: status)
        // A socket must be opened by the first request of its connection.
        case .opens: isFirst ? nil : .badRequest
        case .notOurs: nil
        }
    }
}

/// Answers every request with 404.
final class NotFoundHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = unwrapInboundIn(data) { context.channel.answer(.notFound) }
    }
}

extension Channel {
    /// Sends a response without content and closes the connection.
    fileprivate func answer(_ status: HTTPResponseStatus) {
        var headers: HTTPHeaders = ["Content-Length": "0", "Connection": "close"]
        if status == .upgradeRequired { headers.add(name: "Sec-WebSocket-Version", value: "13") }
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        write(HTTPServerResponsePart.head(head), promise: nil)
        writeAndFlush(HTTPServerResponsePart.end(nil)).whenComplete { _ in self.close(promise: nil) }
    }
}
