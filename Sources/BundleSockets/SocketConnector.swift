public import BundlePush
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import Synchronization

/// Opens WebSockets, `ws` and `wss`, over swift-nio.
public final class SocketConnector: TransportConnector {
    /// How sockets are opened.
    public struct Configuration: Sendable {
        /// Sent as User-Agent: product and version.
        public var userAgent: String
        /// Whose word about a server's name counts.
        public var authorities = TrustedAuthorities.system
        /// Further fields of the request, such as a token. It is asked for each connection and told where it leads, so that a
        /// token goes to its own origin only.
        public var fields: @Sendable (SocketURL) -> [(name: String, value: String)] = { _ in [] }
        /// How much and how long.
        public var limits = SocketLimits()

        /// The defaults for a program called `userAgent`.
        public init(userAgent: String) { self.userAgent = userAgent }
    }

    private let configuration: Configuration
    private let context = Mutex<NIOSSLContext?>(nil)

    /// A connector; it opens nothing yet, and reads no certificates before it needs them.
    public init(_ configuration: Configuration) { self.configuration = configuration }

    /// Opens a socket.
    public func connect(_ url: SocketURL) async throws -> any SyncTransport {
        try Task.checkCancellation()
        let limits = configuration.limits
        let handshake = ClientHandshake(url, try head(url), url.isSecure ? try tls() : nil, limits)
        let deadline = SocketLoop.loop.scheduleTask(in: TimeAmount(limits.handshake)) {
            handshake.fail(.timedOut(.connecting))
        }
        defer { deadline.cancel() }
        ClientBootstrap(group: SocketLoop.loop)
            .connectTimeout(TimeAmount(limits.handshake))
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.recvAllocator, value: SocketLoop.receiving)
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try handshake.begin(on: channel) }
            }
            .connect(host: url.host, port: url.port)
            .whenComplete { handshake.connected($0) }
        do {
            return try await handshake.outcome.value
        } catch {
            handshake.giveUp()
            throw error
        }
    }

    private func tls() throws -> NIOSSLContext {
        try context.withLock { context in
            if let context { return context }
            let fresh = try configuration.authorities.context()
            context = fresh
            return fresh
        }
    }

    private func head(_ url: SocketURL) throws -> HTTPRequestHead {
        var headers = HTTPHeaders()
        headers.add(name: "Host", value: url.authority)
        headers.add(name: "User-Agent", value: configuration.userAgent)
        for (name, value) in configuration.fields(url) { headers.add(name: name, value: value) }
        for (name, value) in headers where !Self.isField(name, value) {
            let shown = String(name.prefix(40).filter { $0.isASCII && !$0.isWhitespace })
            throw TransportError.badHandshake("the request's field \"\(shown)\" has characters that no field may have")
        }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: url.target, headers: headers)
    }

    private static func isField(_ name: String, _ value: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\"(),/:;<=>?@[\\]{}".utf8.contains($0) }
            && value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
}
