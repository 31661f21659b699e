import CCurl
import CLibrary

/// Copies bytes between an open connection of libcurl and a local socket.
///
/// Each direction is read again only after the other side has accepted the previous bytes, so a slow reader slows the
/// sender.
struct StreamCarrier: ~Copyable {
    /// The longest time to send the remaining bytes after the local side has closed.
    private static let flushTimeout = Duration.seconds(1)

    private let handle: UnsafeMutableRawPointer
    private let connection: Int32
    private let local: Int32
    private let inbound = StreamBuffer()
    private let outbound = StreamBuffer()
    /// The server has ended its stream, and all its bytes are delivered.
    private var serverEnded = false
    /// The server does not accept further bytes. Bytes from it are still delivered.
    private var serverStoppedReading = false
    /// The local side has ended its stream.
    private var localEnded = false
    /// The time until which the remaining bytes must be sent; nil while the local side is open.
    private var deadline: SuspendingClock.Instant?

    /// Creates a carrier for an open `handle` with the socket `connection`. `local` must be non-blocking.
    init(_ handle: UnsafeMutableRawPointer, _ connection: Int32, _ local: Int32) {
        self.handle = handle
        self.connection = connection
        self.local = local
    }

    /// Runs until either side has closed. Calls `serverWillEnd` before it ends the local side for the server.
    mutating func run(serverWillEnd: () -> Void) {
        repeat {
            copyFromServer(serverWillEnd)
            copyToServer()
        } while !isOver && waitForMore()
    }

    private var isLocalClosed: Bool { deadline != nil }

    private var isOver: Bool {
        isLocalClosed && (serverEnded || serverStoppedReading || localEnded && outbound.isEmpty)
    }

    private mutating func copyFromServer(_ serverWillEnd: () -> Void) {
        while !isLocalClosed && !serverEnded {
            if inbound.isEmpty {
                switch receive() {
                case .moved: break
                case .wait: return
                case .ended:
                    serverEnded = true
                    serverWillEnd()
                    shutdown(local, Int32(SHUT_WR))
                    return
                }
            }
            switch deliver() {
            case .moved: break
            case .wait: return
            case .ended: closeLocal()
            }
        }
    }

    private mutating func copyToServer() {
        while true {
            if outbound.isEmpty {
                if localEnded { return }
                switch readLocal() {
                case .moved: break
                case .wait: return
                case .ended:
                    localEnded = true
                    return
                }
            }
            switch send() {
            case .moved: break
            case .wait: return
            case .ended:
                serverStoppedReading = true
                outbound.clear()
            }
        }
    }

    private mutating func closeLocal() {
        if deadline == nil { deadline = .now.advanced(by: Self.flushTimeout) }
    }

    /// Waits for a socket. Returns false after the deadline.
    private mutating func waitForMore() -> Bool {
        var fromServer: Int32 = 0
        if !serverEnded && !isLocalClosed && inbound.isEmpty { fromServer |= POLLIN }
        if !outbound.isEmpty { fromServer |= POLLOUT }
        var fromLocal: Int32 = 0
        if !localEnded && outbound.isEmpty { fromLocal |= POLLIN }
        if !inbound.isEmpty { fromLocal |= POLLOUT }
        // A closed socket always ends `poll`. The connection is therefore left out when nothing is expected from it,
        // and the local socket is included until it is closed.
        var sockets = [
            pollfd(fd: fromServer == 0 ? -1 : connection, events: Int16(fromServer), revents: 0),
            pollfd(fd: isLocalClosed ? -1 : local, events: Int16(fromLocal), revents: 0),
        ]
        let left = deadline.map { SuspendingClock.now.duration(to: $0) }
        if let left, left <= .zero { return false }
        poll(&sockets, nfds_t(sockets.count), left.map { Int32(clamping: $0.wholeMilliseconds) } ?? -1)
        if Int32(sockets[1].revents) & (POLLHUP | POLLERR) != 0 { closeLocal() }
        return true
    }

    // MARK: System calls

    private enum IOResult { case moved, wait, ended }

    private mutating func receive() -> IOResult {
        var count = 0
        let code = curl_easy_recv(handle, inbound.space.baseAddress, inbound.space.count, &count)
        if code == CURLE_AGAIN { return .wait }
        guard code == CURLE_OK, count > 0 else { return .ended }
        inbound.filled(count)
        return .moved
    }

    private mutating func send() -> IOResult {
        if serverStoppedReading { return .ended }
        var count = 0
        let code = curl_easy_send(handle, outbound.bytes.baseAddress, outbound.bytes.count, &count)
        if code == CURLE_AGAIN { return .wait }
        guard code == CURLE_OK else { return .ended }
        outbound.consumed(count)
        return .moved
    }

    private mutating func readLocal() -> IOResult {
        let count = CLibrary.recv(local, outbound.space.baseAddress, outbound.space.count, 0)
        if count < 0 && Self.isTemporary(errno) { return .wait }
        guard count > 0 else { return .ended }
        outbound.filled(count)
        return .moved
    }

    private mutating func deliver() -> IOResult {
        let count = CLibrary.send(local, inbound.bytes.baseAddress, inbound.bytes.count, Int32(MSG_NOSIGNAL))
        if count < 0 { return Self.isTemporary(errno) ? .wait : .ended }
        inbound.consumed(count)
        return .moved
    }

    private static func isTemporary(_ code: Int32) -> Bool { code == EAGAIN || code == EWOULDBLOCK || code == EINTR }
}

/// A buffer between the two sides, which is filled only when it is empty.
///
/// A class, because Swift 6.3 with -O and without whole-module optimization compiled the destructor of a noncopyable
/// struct to an endless recursion.
private final class StreamBuffer {
    /// The memory to read into while the buffer is empty.
    let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 16)
    private var range = 0..<0

    deinit { space.deallocate() }

    var isEmpty: Bool { range.isEmpty }

    /// The bytes to write.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: space[range]) }

    func filled(_ count: Int) { range = 0..<count }

    func consumed(_ count: Int) { range = range.lowerBound + count..<range.upperBound }

    func clear() { range = 0..<0 }
}
