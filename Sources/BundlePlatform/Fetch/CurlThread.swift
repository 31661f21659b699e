internal import CCurl
internal import Glibc

/// A `CurlLoop` on a thread of its own; ends with its owner.
final class CurlThread: Sendable {
    let loop: CurlLoop
    private let thread: pthread_t

    /// libcurl's own set-up, which a process needs once.
    private static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// Nil when there is no memory or no thread to be had.
    init?(maximumTransfers: Int) {
        guard Self.isReady, let loop = CurlLoop(maximumTransfers: maximumTransfers) else { return nil }
        let context = Unmanaged.passRetained(loop)
        var thread = pthread_t()
        let code = pthread_create(&thread, nil, Self.main, context.toOpaque())
        guard code == 0 else {
            context.release()
            return nil
        }
        self.loop = loop
        self.thread = thread
    }

    deinit {
        loop.stop()
        // A sink may hold the last reference, and a thread cannot wait for itself.
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }

    private static let main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        blockSignals()
        guard let context else { return nil }
        Unmanaged<CurlLoop>.fromOpaque(context).takeRetainedValue().run()
        return nil
    }

    /// A signal is for the program's own threads, and a TLS connection that breaks must not raise SIGPIPE.
    private static func blockSignals() {
        var signals = sigset_t()
        sigfillset(&signals)
        for fault in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT] { sigdelset(&signals, fault) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
