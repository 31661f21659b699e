import BundleThreads
import CCurl

/// A `CurlLoop` on a thread of its own; ends with its owner.
final class CurlThread: Sendable {
    let loop: CurlLoop
    private let thread: BlockingThread

    /// libcurl's own set-up, which a process needs once.
    static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// Nil when there is no memory or no thread to be had.
    init?(maximumTransfers: Int) {
        guard Self.isReady, let loop = CurlLoop(maximumTransfers: maximumTransfers),
            let thread = try? BlockingThread({ loop.run() })
        else { return nil }
        self.loop = loop
        self.thread = thread
    }

    deinit {
        loop.stop()
        thread.join()
    }
}
