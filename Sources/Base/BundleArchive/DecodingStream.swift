import Glibc

/// A decompressor that reads one compressed stream from its first byte to its last, and refuses what follows it.
protocol DecodingStream: AnyObject {
    /// Compressed bytes taken so far.
    var consumed: Int { get }

    /// Fills `output`; fewer bytes only at the end of the stream, 0 after it.
    func read(into output: UnsafeMutableRawBufferPointer) throws(ArchiveFailure) -> Int
}

/// The compressed bytes of a descriptor, from its start, a buffer at a time.
final class CompressedInput {
    private static let bufferBytes = 128 * 1024

    private let descriptor: Int32
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferBytes, alignment: 4096)
    /// Bytes taken so far.
    private(set) var consumed = 0

    init(descriptor: Int32) { self.descriptor = descriptor }

    deinit { buffer.deallocate() }

    /// The next bytes, valid until the following call; at the end of the file `stream` is cut short.
    func next(_ stream: String) throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        let count = try fill()
        if count == 0 { throw .corrupt("the \(stream) is cut short") }
        return UnsafeRawBufferPointer(rebasing: buffer[..<count])
    }

    /// Refuses bytes behind the stream: `unread` ones of the buffer, or further ones of the file.
    func requireEnd(unread: Int) throws(ArchiveFailure) {
        if unread > 0 { throw .trailingData }
        if try fill() > 0 { throw .trailingData }
    }

    private func fill() throws(ArchiveFailure) -> Int { try read(into: buffer) }

    /// The next bytes as they are, 0 at the end of the file.
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

/// Bounds on what may come out of an archive while it is read, whatever its entries claim.
package struct DecodingLimits: Sendable {
    /// Decoded bytes for one byte of the archive, once more than `grace` bytes are out.
    package var ratio: Int
    /// Decoded bytes before the ratio counts.
    package var grace: Int
    /// When reading has to be over.
    package var deadline: ContinuousClock.Instant

    /// States bounds.
    package init(ratio: Int, grace: Int, deadline: ContinuousClock.Instant) {
        self.ratio = ratio
        self.grace = grace
        self.deadline = deadline
    }

    /// Refuses an archive of which `consumed` bytes have become `produced`.
    func check(consumed: Int, produced: Int) throws(ArchiveFailure) {
        if produced > grace, produced / ratio > consumed { throw .ratio(maximum: ratio) }
        if ContinuousClock.now > deadline { throw .tooSlow }
    }
}
