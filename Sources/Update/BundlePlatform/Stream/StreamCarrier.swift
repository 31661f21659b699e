import CCurl
import Glibc

/// Carries bytes between an open connection of libcurl and a local socket.
///
/// A direction is read again only when the other side has taken what was read last, so that who reads slowly slows who sends.
struct StreamCarrier: ~Copyable {
    /// How long what the local side left behind may take to reach the server.
    private static let farewell = Duration.seconds(1)

    private let handle: UnsafeMutableRawPointer
    private let connection: Int32
    private let local: Int32
    private let inbound = StreamBuffer()
    private let outbound = StreamBuffer()
    /// Nothing more comes from the server, and what came is delivered.
    private var serverEnded = false
    /// The server takes nothing more; what it said before is still delivered.
    private var serverIsDeaf = false
    /// Nothing more comes from the local side.
    private var localEnded = false
    /// When the local side was closed, and what it left behind has to be sent.
    private var deadline: SuspendingClock.Instant?

    /// `handle` is open with `connection` as its socket; `local` does not block.
    init(_ handle: UnsafeMutableRawPointer, _ connection: Int32, _ local: Int32) {
        self.handle = handle
        self.connection = connection
        self.local = local
    }

    /// Runs until either side is gone.
    mutating func run() {
        repeat {
            bringIn()
            sendOut()
        } while !isOver && waitForMore()
    }

    private var localIsGone: Bool { deadline != nil }

    private var isOver: Bool {
        localIsGone && (serverEnded || serverIsDeaf || localEnded && outbound.isEmpty)
    }

    private mutating func bringIn() {
        while !localIsGone && !serverEnded {
            if inbound.isEmpty {
                switch receive() {
                case .moved: break
                case .wait: return
                case .ended:
                    serverEnded = true
                    shutdown(local, Int32(SHUT_WR))
                    return
                }
            }
            switch deliver() {
            case .moved: break
            case .wait: return
            case .ended: localGoes()
            }
        }
    }

    private mutating func sendOut() {
        while true {
            if outbound.isEmpty {
                if localEnded { return }
                switch take() {
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
                serverIsDeaf = true
                outbound.clear()
            }
        }
    }

    private mutating func localGoes() {
        if deadline == nil { deadline = .now.advanced(by: Self.farewell) }
    }

    /// False when the time of the farewell is over.
    private mutating func waitForMore() -> Bool {
        var fromServer: Int32 = 0
        if !serverEnded && !localIsGone && inbound.isEmpty { fromServer |= POLLIN }
        if !outbound.isEmpty { fromServer |= POLLOUT }
        var fromLocal: Int32 = 0
        if !localEnded && outbound.isEmpty { fromLocal |= POLLIN }
        if !inbound.isEmpty { fromLocal |= POLLOUT }
        // A closed socket ends a wait for nothing, too: so the connection is left out then, and the local one stays in until that is
        // known.
        var sockets = [
            pollfd(fd: fromServer == 0 ? -1 : connection, events: Int16(fromServer), revents: 0),
            pollfd(fd: localIsGone ? -1 : local, events: Int16(fromLocal), revents: 0),
        ]
        let left = deadline.map { SuspendingClock.now.duration(to: $0) }
        if let left, left <= .zero { return false }
        poll(&sockets, nfds_t(sockets.count), left.map { Int32(clamping: $0.wholeMilliseconds) } ?? -1)
        if Int32(sockets[1].revents) & (POLLHUP | POLLERR) != 0 { localGoes() }
        return true
    }

    // MARK: System calls

    private enum Step { case moved, wait, ended }

    private mutating func receive() -> Step {
        var count = 0
        let code = curl_easy_recv(handle, inbound.space.baseAddress, inbound.space.count, &count)
        if code == CURLE_AGAIN { return .wait }
        guard code == CURLE_OK, count > 0 else { return .ended }
        inbound.filled(count)
        return .moved
    }

    private mutating func send() -> Step {
        // Nobody is there to take it.
        if serverIsDeaf { return .ended }
        var count = 0
        let code = curl_easy_send(handle, outbound.bytes.baseAddress, outbound.bytes.count, &count)
        if code == CURLE_AGAIN { return .wait }
        guard code == CURLE_OK else { return .ended }
        outbound.taken(count)
        return .moved
    }

    private mutating func take() -> Step {
        let count = Glibc.recv(local, outbound.space.baseAddress, outbound.space.count, 0)
        if count < 0 && Self.mayPass(errno) { return .wait }
        guard count > 0 else { return .ended }
        outbound.filled(count)
        return .moved
    }

    private mutating func deliver() -> Step {
        let count = Glibc.send(local, inbound.bytes.baseAddress, inbound.bytes.count, Int32(MSG_NOSIGNAL))
        if count < 0 { return Self.mayPass(errno) ? .wait : .ended }
        inbound.taken(count)
        return .moved
    }

    private static func mayPass(_ code: Int32) -> Bool { code == EAGAIN || code == EWOULDBLOCK || code == EINTR }
}

/// Bytes that were read on one side and not yet written to the other; filled again only when it is empty.
///
/// A class: as a noncopyable struct, built by Swift 6.3 with -O but file by file, it hung the program when it was destroyed: the
/// function that destroys it called itself.
private final class StreamBuffer {
    /// Where to read to, while it is empty.
    let space = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 16)
    private var range = 0..<0

    deinit { space.deallocate() }

    var isEmpty: Bool { range.isEmpty }

    /// What is to be written.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: space[range]) }

    func filled(_ count: Int) { range = 0..<count }

    func taken(_ count: Int) { range = range.lowerBound + count..<range.upperBound }

    func clear() { range = 0..<0 }
}
