import NIOCore

/// Stands before the acceptance of connections: while there are as many as may be, further ones wait in the kernel's queue.
final class AcceptGate: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    private let limit: Int
    private var open = 0
    private var holdsRead = false

    init(limit: Int) { self.limit = limit }

    func read(context: ChannelHandlerContext) {
        if open < limit { context.read() } else { holdsRead = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        open += 1
        unwrapInboundIn(data).closeFuture.assumeIsolated().whenComplete { [self] _ in
            open -= 1
            if holdsRead {
                holdsRead = false
                context.read()
            }
        }
        context.fireChannelRead(data)
    }
}
