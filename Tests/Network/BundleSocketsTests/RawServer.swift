import BundleTransport
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

/// A server that sends given bytes and records received ones.
final class RawServer: Sendable {
    enum Manner: Sendable {
        /// Accepts the connection and sends nothing.
        case silent
        /// Sends this after the first bytes, and closes if `closes` is true.
        case says(String, closes: Bool = false)
        /// Completes the handshake with another header field, then sends these bytes.
        case opens([UInt8], field: (String, String)? = nil)
    }

    let port: Int
    /// All bytes of each connection at its end, without the handshake.
    let received: AsyncStream<[UInt8]>
    /// One element for each connection that has sent bytes.
    let asked: AsyncStream<Void>
    private let listener: any Channel

    private init(_ listener: any Channel, _ received: AsyncStream<[UInt8]>, _ asked: AsyncStream<Void>) {
        self.listener = listener
        self.received = received
        self.asked = asked
        port = listener.localAddress?.port ?? 0
    }

    static func start(_ manner: Manner) async throws -> RawServer {
        let (received, receiving) = AsyncStream<[UInt8]>.makeStream()
        let (asked, asking) = AsyncStream<Void>.makeStream()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    switch manner {
                    case .silent:
                        try channel.pipeline.syncOperations.addHandler(
                            RawHandler(nil, closes: false, receiving, asking))
                    case .says(let text, let closes):
                        try channel.pipeline.syncOperations.addHandler(
                            RawHandler(Array(text.utf8), closes: closes, receiving, asking))
                    case .opens(let bytes, let field): try upgrade(channel, bytes, field, receiving, asking)
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return RawServer(listener, received, asked)
    }

    private static func upgrade(
        _ channel: any Channel, _ bytes: [UInt8], _ field: (String, String)?,
        _ receiving: AsyncStream<[UInt8]>.Continuation,
        _ asking: AsyncStream<Void>.Continuation
    ) throws {
        let upgrader = NIOTypedWebSocketServerUpgrader<Void>(
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture(HTTPHeaders(field.map { [$0] } ?? []))
            },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture {
                    // Precedes the handlers of frames, which then see nothing.
                    let handler = RawHandler(bytes, closes: false, receiving, asking)
                    try channel.pipeline.syncOperations.addHandler(handler, position: .first)
                    handler.say()
                }
            })
        _ = try channel.pipeline.syncOperations.configureUpgradableHTTPServerPipeline(
            configuration: NIOUpgradableHTTPServerPipelineConfiguration(
                upgradeConfiguration: NIOTypedHTTPServerUpgradeConfiguration<Void>(upgraders: [upgrader]) { channel in
                    channel.close()
                }))
    }

    func url(_ path: String = "/push") throws -> SocketURL { try SocketURL(parsing: "ws://127.0.0.1:\(port)\(path)") }

    func stop() async { try? await listener.close() }
}

private final class RawHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var answer: [UInt8]?
    private let closes: Bool
    private let receiving: AsyncStream<[UInt8]>.Continuation
    private let asking: AsyncStream<Void>.Continuation
    private var bytes: [UInt8] = []
    private var context: ChannelHandlerContext?

    init(
        _ answer: [UInt8]?, closes: Bool, _ receiving: AsyncStream<[UInt8]>.Continuation,
        _ asking: AsyncStream<Void>.Continuation
    ) {
        self.asking = asking
        self.answer = answer
        self.closes = closes
        self.receiving = receiving
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if bytes.isEmpty { asking.yield() }
        bytes += unwrapInboundIn(data).readableBytesView
        say()
    }

    func say() {
        guard let context, let answer else { return }
        self.answer = nil
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: answer)), promise: nil)
        if closes { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        receiving.yield(bytes)
        self.context = nil
    }
}
