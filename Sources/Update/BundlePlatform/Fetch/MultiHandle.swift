internal import CCurl

/// libcurl's multi handle, with its connections.
///
/// `@unchecked Sendable`: `curl_multi_wakeup` may be called from any thread; everything else is called by one.
struct MultiHandle: ~Copyable, @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Nil when there is no memory. Keeps up to `connections` open for what comes next: by itself libcurl keeps four for each
    /// transfer that runs at the moment, and between two of them that is next to none.
    init?(connections: Int) {
        guard let pointer = curl_multi_init() else { return nil }
        ccurl_multi_set_long(pointer, CURLMOPT_MAXCONNECTS, connections)
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
