package import BundleTransport
package import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

/// Opens WebSockets by swift-nio's handshake and frames over the streams of a `StreamConnector`.
package struct SocketConnector: TransportConnector {
    package struct Configuration: Sendable {
        /// The User-Agent: product and version.
        package var userAgent: String
        /// More header fields, such as a token, which the caller adds only for the URL that may receive it.
        package var fields: [(name: String, value: String)] = []
        package var limits = SocketLimits()

        package init(userAgent: String) { self.userAgent = userAgent }
    }

    private let configuration: Configuration
    private let streams: any StreamConnector

    package init(_ configuration: Configuration, over streams: any StreamConnector) {
        self.configuration = configuration
        self.streams = streams
    }

    package func connect(_ url: SocketURL) async throws -> any SyncTransport {
        try Task.checkCancellation()
        let (head, limits, streams) = (try head(url), configuration.limits, streams)
        return try await within(limits.handshake, else: .timedOut(.connecting)) {
            try await Self.upgrade(try await streams.connectStream(url), head, limits)
        }
    }

    /// Upgrades a stream to a socket. Closes the stream on failure.
    private static func upgrade(
        _ stream: any OpenStream, _ head: HTTPRequestHead, _ limits: SocketLimits
    ) async throws -> SocketTransport {
        let handshake = ClientHandshake(head, limits, over: stream)
        let channel = try await ClientBootstrap(group: SocketLoop.loop)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.recvAllocator, value: SocketLoop.receiving)
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try handshake.begin(on: channel) }
            }
            .withConnectedSocket(stream.socket).get()
        do {
            return try await handshake.outcome.value
        } catch {
            channel.close(promise: nil)
            throw error
        }
    }

    private func head(_ url: SocketURL) throws -> HTTPRequestHead {
        var headers = HTTPHeaders()
        headers.add(name: "Host", value: url.authority)
        headers.add(name: "User-Agent", value: configuration.userAgent)
        for (name, value) in configuration.fields { headers.add(name: name, value: value) }
        for (name, value) in headers where !Self.isField(name, value) {
            let shown = String(name.prefix(40).filter { $0.isASCII && !$0.isWhitespace })
            throw TransportError.badHandshake("the request header \"\(shown)\" has invalid characters")
        }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: url.target, headers: headers)
    }

    private static func isField(_ name: String, _ value: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\"(),/:;<=>?@[\\]{}".utf8.contains($0) }
            && value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
}

/// The thread of all sockets of this process. It never ends.
package enum SocketLoop {
    package static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// Starts small, because most sockets are silent, and stays small enough to avoid reading far ahead.
    package static var receiving: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1024, maximum: 16 << 10)
    }
}
