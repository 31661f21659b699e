import NIOCore
import NIOHTTP1

/// Stands before NIO's upgrade handler, which forgets the head of a request that it does not upgrade: answers what the rule
/// refuses, and takes the wish for an upgrade off what is not ours.
final class UpgradeDoor: ChannelInboundHandler, RemovableChannelHandler {
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
                // NIO's decoder reads nothing behind a request that wished for an upgrade.
                head.headers.replaceOrAdd(name: "Connection", value: "close")
                return context.fireChannelRead(wrapInboundOut(.head(head)))
            }
        }
        guard let refusal else { return context.fireChannelRead(data) }
        // An answer before the request's end would be lost in the pipeline.
        if case .end = part { context.channel.answer(refusal) }
    }

    private static func refusal(_ verdict: UpgradeRule.Verdict, isFirst: Bool) -> HTTPResponseStatus? {
        switch verdict {
        case .refused(let status): HTTPResponseStatus(statusCode: status)
        // Sockets are opened over connections of their own.
        case .opens: isFirst ? nil : .badRequest
        case .notOurs: nil
        }
    }
}

/// Answers everything with 404.
final class NothingElse: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = unwrapInboundIn(data) { context.channel.answer(.notFound) }
    }
}

extension Channel {
    /// Answers without content, and closes.
    fileprivate func answer(_ status: HTTPResponseStatus) {
        var headers: HTTPHeaders = ["Content-Length": "0", "Connection": "close"]
        if status == .upgradeRequired { headers.add(name: "Sec-WebSocket-Version", value: "13") }
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        write(HTTPServerResponsePart.head(head), promise: nil)
        writeAndFlush(HTTPServerResponsePart.end(nil)).whenComplete { _ in self.close(promise: nil) }
    }
}
