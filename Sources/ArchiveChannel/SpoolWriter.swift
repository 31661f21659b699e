import BundleDisk
import BundleSigning
import BundleThreads
import Dispatch
import Synchronization

/// Hashes and writes a download on a thread of its own, so that receiving goes on meanwhile.
///
/// Sendable, unchecked: the hasher and the buffers belong to the worker from `append` to `finish`; the rest is behind the mutex,
/// the semaphore counts the empty buffers.
final class SpoolWriter: @unchecked Sendable {
    private static let bufferBytes = 256 * 1024
    private static let buffers = 3

    /// Sendable, unchecked: owned by one side at a time.
    private final class Buffer: @unchecked Sendable {
        private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferBytes, alignment: 4096)
        private var used = 0

        deinit { room.deallocate() }

        var isFull: Bool { used == room.count }
        var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: room[..<used]) }

        func clear() { used = 0 }

        /// Copies what fits, and tells how much that was.
        func take(_ bytes: UnsafeRawBufferPointer) -> Int {
            let count = min(bytes.count, room.count - used)
            UnsafeMutableRawBufferPointer(rebasing: room[used..<used + count])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            used += count
            return count
        }
    }

    private struct State {
        var empty = (0..<SpoolWriter.buffers).map { _ in Buffer() }
        var failure: (any Error)?
    }

    private let file: File
    private let worker: SerialWorker
    private let state = Mutex(State())
    private let available = DispatchSemaphore(value: 0)
    private var hasher: SHA256Hasher
    private var current: Buffer?

    /// Goes on at the file's position, behind the bytes that `hasher` has seen.
    init(_ file: File, hasher: consuming SHA256Hasher) throws {
        self.file = file
        self.hasher = hasher
        worker = try SerialWorker()
        for _ in 0..<Self.buffers { available.signal() }
    }

    /// Takes the next bytes; throws what went wrong with those before.
    func append(_ bytes: UnsafeRawBufferPointer) throws {
        var rest = bytes
        while !rest.isEmpty {
            let buffer = try emptyBuffer()
            let count = buffer.take(rest)
            if buffer.isFull { submit() }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Waits until everything is written; the digest of all the file's bytes.
    func finish() throws -> SHA256Digest {
        submit()
        worker.finish()
        if let failure = state.withLock({ $0.failure }) { throw failure }
        return try hasher.finish()
    }

    private func emptyBuffer() throws -> Buffer {
        if let current { return current }
        available.wait()
        let buffer = try state.withLock { state in
            let buffer = state.empty.removeLast()
            guard let failure = state.failure else { return buffer }
            state.empty.append(buffer)
            available.signal()
            throw failure
        }
        current = buffer
        return buffer
    }

    private func submit() {
        guard let buffer = current else { return }
        current = nil
        worker.submit { [self] in
            write(buffer.bytes)
            buffer.clear()
            state.withLock { $0.empty.append(buffer) }
            available.signal()
        }
    }

    private func write(_ bytes: UnsafeRawBufferPointer) {
        if state.withLock({ $0.failure != nil }) { return }
        do {
            try hasher.update(bytes)
            try file.write(bytes)
        } catch {
            state.withLock { $0.failure = error }
        }
    }
}
