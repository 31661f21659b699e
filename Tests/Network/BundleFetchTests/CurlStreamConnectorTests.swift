import BundleFetch
import BundleTransport
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@Suite(.ownThread)
struct CurlStreamConnectorTests {
    private static let streams = CurlStreamConnector(options: FetchOptions(userAgent: "tests/1"))

    private static func url(_ port: Int) throws -> SocketURL { try SocketURL(parsing: "ws://127.0.0.1:\(port)/") }

    /// Returns `count` bytes, or those before the end of the stream or a minute without bytes.
    private static func read(_ stream: Int32, until count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var window = [UInt8](repeating: 0, count: 65536)
        while bytes.count < count {
            var entry = pollfd(fd: stream, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, 60_000) == 1 else { break }
            let got = recv(stream, &window, window.count, 0)
            if got <= 0 { break }
            bytes += window[..<got]
        }
        return bytes
    }

    private static func write(_ text: String, to stream: Int32) {
        _ = Glibc.send(stream, text, text.utf8.count, Int32(MSG_NOSIGNAL))
    }

    @Test func `delivers all bytes before the end of the stream`() async throws {
        let body = [UInt8](repeating: 7, count: 1 << 20)
        let server = try LoopbackServer(["/": Route(body)])
        let stream = try await Self.streams.connectStream(try Self.url(server.port)).socket
        defer { close(stream) }
        Self.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n", to: stream)
        // Bytes that are not read at once are kept.
        #expect(server.wait(for: "/"))
        #expect(Self.read(stream, until: body.count).suffix(1000).allSatisfy { $0 == 7 })
        server.stop()
        let rest = Self.read(stream, until: .max)
        #expect(rest.count < 1024 && rest.allSatisfy { $0 == 7 })
    }

    @Test func `sends the remaining bytes after the local side closes`() async throws {
        let server = try LoopbackServer(["/": Route([1])])
        let stream = try await Self.streams.connectStream(try Self.url(server.port)).socket
        Self.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n", to: stream)
        close(stream)
        #expect(server.wait(for: "/"))
    }

    @Test func `ends with the local side although the server does not read`() async throws {
        await #expect(processExitsWith: .success) {
            // The kernel accepts connections, but no process reads from them.
            let server = try SilentPort()
            let before = Self.sockets()
            let stream = try await Self.streams.connectStream(try Self.url(server.port)).socket
            #expect(Self.sockets() > before)
            let block = String(repeating: "a", count: 65536)
            var full = 0
            while full < 20 {
                var entry = pollfd(fd: stream, events: Int16(POLLOUT), revents: 0)
                full = poll(&entry, 1, 50) == 0 ? full + 1 : 0
                if full == 0 { Self.write(block, to: stream) }
            }
            close(stream)
            let deadline = ContinuousClock.now + .seconds(60)
            while Self.sockets() > before && ContinuousClock.now < deadline { usleep(10_000) }
            #expect(Self.sockets() <= before)
            withExtendedLifetime(server) {}
        }
    }

    /// Returns the number of open sockets. Other descriptors may open and close during the test.
    private static func sockets() -> Int {
        (0..<1024).count { descriptor in
            var status = stat()
            return fstat(Int32(descriptor), &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
        }
    }
}

/// A port whose connections the kernel accepts and no process reads.
private final class SilentPort: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 8) == 0
                    ? getsockname(listener, address, &length) : -1
            }
        }
        descriptor = listener
        try #require(code == 0)
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }
}
