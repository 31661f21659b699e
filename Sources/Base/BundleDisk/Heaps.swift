import CLinux

/// The process's heaps.
package enum Heaps {
    /// Lets all threads share so many; otherwise every thread has one of its own, and keeps there what it does not need any
    /// more. Before the first thread is started.
    package static func limit(to count: Int32) { _ = clinux_limit_heaps(count) }
}
