import CLinux

/// The heaps of the C library.
package enum Heaps {
    /// Limits the number of heaps that the threads share. Otherwise each thread has a heap and keeps its free memory.
    /// Call it before the first thread starts.
    package static func limit(to count: Int32) { _ = clinux_limit_heaps(count) }
}
