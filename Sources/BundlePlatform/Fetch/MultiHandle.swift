internal import CCurl

/// libcurl's multi handle, with its connections.
///
/// `@unchecked Sendable`: `curl_multi_wakeup` may be called from any thread; everything else is called by one.
struct MultiHandle: ~Copyable, @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Nil when there is no memory.
    init?() {
        guard let pointer = curl_multi_init() else { return nil }
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
