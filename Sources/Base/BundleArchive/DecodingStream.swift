import CLibrary

/// A decompressor of one compressed stream. It rejects bytes after the stream.
protocol DecodingStream: AnyObject {
    /// The compressed bytes consumed so far.
    var consumed: Int { get }

    /// Reads the next bytes. Returns 0 at the end of the stream.
    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int
}

/// Reads the bytes of a descriptor from its start. It is also the stream of a tar that is not compressed.
final class CompressedInput: DecodingStream {
    private static let bufferBytes = 128 * 1024

    private let descriptor: Int32
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferBytes, alignment: 4096)
    private(set) var consumed = 0

    init(descriptor: Int32) { self.descriptor = descriptor }

    deinit { buffer.deallocate() }

    /// Returns the next bytes, valid until the next call. Throws at the end of the file, because `stream` is then
    /// truncated.
    func next(_ stream: String) throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        let count = try read(into: buffer)
        if count == 0 { throw .corrupt("the \(stream) is truncated") }
        return UnsafeRawBufferPointer(rebasing: buffer[..<count])
    }

    /// Throws if bytes follow the stream: `unread` ones in the buffer, or more in the file.
    func requireEnd(unread: Int) throws(ArchiveFailure) {
        if unread > 0 { throw .trailingData }
        if try read(into: buffer) > 0 { throw .trailingData }
    }

    /// Reads the next bytes, possibly fewer than fit. Returns 0 at the end of the file.
    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int {
        while true {
            let count = pread(descriptor, output.baseAddress, output.count, off_t(consumed))
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw .system(operation: "read", code: errno) }
            consumed += count
            return count
        }
    }
}

/// Limits for decoded bytes, independent of the stated sizes.
package struct DecodingLimits: Sendable {
    /// The decoded bytes per compressed byte, after `grace` bytes.
    package var ratio: Int
    /// The decoded bytes before `ratio` applies.
    package var grace: Int
    /// The time at which reading fails.
    package var deadline: ContinuousClock.Instant

    package init(ratio: Int, grace: Int, deadline: ContinuousClock.Instant) {
        self.ratio = ratio
        self.grace = grace
        self.deadline = deadline
    }

    /// Throws if `produced` bytes from `consumed` bytes exceed the limits.
    func check(consumed: Int, produced: Int) throws(ArchiveFailure) {
        if produced > grace, produced / ratio > consumed { throw .ratio(maximum: ratio) }
        if ContinuousClock.now > deadline { throw .tooSlow }
    }
}
