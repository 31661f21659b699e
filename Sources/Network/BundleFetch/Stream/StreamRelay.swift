import BundleValues
import BundleTransport
import CCurl
import CLibrary
import Synchronization

/// One connection on its own thread, which opens it and copies bytes to and from a local socket until either end
/// closes.
///
/// The multi handle has only this connection, so other transfers cannot affect it.
final class StreamRelay: Sendable {
    /// The kernel's buffer for unread bytes in each direction.
    private static let bufferedBytes: Int32 = 32 << 10

    /// The near end of the local socket after the connection is open.
    let opened = Promised<Int32>()
    private let url: FetchURL
    private let options: FetchOptions
    private let multi: MultiHandle
    private let alert = Mutex<TransportError?>(nil)

    /// The reason for which the server ended the connection, if it is the certificate of this client.
    var certificateError: TransportError? { alert.withLock { $0 } }

    init(to url: FetchURL, options: FetchOptions) throws(TransportError) {
        guard CurlThread.isReady, let multi = MultiHandle(connections: 1) else {
            throw .unreachable("libcurl (libcurl.so.4) cannot be started on this machine")
        }
        self.url = url
        self.options = options
        self.multi = multi
    }

    /// Starts the thread, which ends with the connection.
    func start() throws(TransportError) {
        do throws(ThreadFailure) {
            _ = try BlockingThread { [self] in run() }
        } catch {
            throw .unreachable("\(error)")
        }
    }

    /// Cancels a connection that is not open yet. Any thread may call this.
    func cancel() {
        opened.settle(.failure(CancellationError()))
        curl_multi_wakeup(multi.pointer)
    }

    // MARK: On the thread

    private func run() {
        guard var easy = CurlEasy() else {
            opened.settle(.failure(TransportError.unreachable("there is not enough memory")))
            return
        }
        do {
            try easy.prepareStream(to: url, options: options)
            try require(curl_multi_add_handle(multi.pointer, easy.handle))
            try open(easy)
            try carry(easy)
        } catch {
            opened.settle(.failure(error as? TransportError ?? .unreachable("\(error)")))
        }
        // Closes the connection.
        curl_multi_remove_handle(multi.pointer, easy.handle)
    }

    /// Runs libcurl until the connection with its tunnel and TLS is open, or it is cancelled.
    private func open(_ easy: borrowing CurlEasy) throws {
        var (running, left): (Int32, Int32) = (0, 0)
        while !opened.isSettled {
            try require(curl_multi_perform(multi.pointer, &running))
            while let message = curl_multi_info_read(multi.pointer, &left) {
                guard message.pointee.msg == CURLMSG_DONE else { continue }
                let result = message.pointee.data.result
                if result == CURLE_OK { return }
                throw CurlFailure.transportError(result, of: easy, at: url, options: options)
            }
            // libcurl shortens the wait for its own timeouts.
            try require(curl_multi_poll(multi.pointer, nil, 0, 60_000, nil))
        }
        throw CancellationError()
    }

    private func require(_ code: CURLMcode) throws(TransportError) {
        guard code == CURLM_OK else {
            throw .unreachable("libcurl failed: \(String(cString: curl_multi_strerror(code)))")
        }
    }

    private func carry(_ easy: borrowing CurlEasy) throws {
        var connection: curl_socket_t = -1
        guard ccurl_active_socket(easy.handle, &connection) == CURLE_OK, connection >= 0 else {
            throw TransportError.unreachable("libcurl does not have an open connection")
        }
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw TransportError.unreachable("no socket: \(String(cString: strerror(errno)))")
        }
        let (near, far) = (ends[0], ends[1])
        defer { close(far) }
        for end in ends {
            var bytes = Self.bufferedBytes
            setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
        }
        guard opened.settle(.success(near)) else {
            close(near)
            return
        }
        var carrier = StreamCarrier(easy.handle, connection, far)
        carrier.run {
            // Set before the local end is closed, because the reader then asks for it.
            let error = CurlFailure.alertError(easy.explanation, options)
            alert.withLock { $0 = error }
        }
    }
}
