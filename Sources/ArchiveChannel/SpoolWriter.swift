import BundleDisk
import BundleSigning
import BundleThreads

/// Hashes and writes a download on a thread of its own, so that receiving goes on meanwhile.
final class SpoolWriter {
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

    /// Sendable, unchecked: the stage's until it has ended.
    private final class Digest: @unchecked Sendable {
        var hasher: SHA256Hasher
        init(_ hasher: consuming SHA256Hasher) { self.hasher = hasher }
    }

    private let empty: Pipe<Buffer, any Error>
    private let full = Pipe<Buffer, any Error>(capacity: buffers)
    private let digest: Digest
    private let stage: PipeStage
    private var current: Buffer?

    /// Goes on at the file's position, behind the bytes that `hasher` has seen.
    init(_ file: File, hasher: consuming SHA256Hasher) throws {
        empty = Pipe(capacity: Self.buffers, holding: (0..<Self.buffers).map { _ in Buffer() })
        let digest = Digest(hasher)
        self.digest = digest
        stage = try PipeStage(from: full, to: empty) { buffer in
            try digest.hasher.update(buffer.bytes)
            try file.write(buffer.bytes)
            buffer.clear()
            return buffer
        }
    }

    /// Takes the next bytes; throws what went wrong with those before.
    func append(_ bytes: UnsafeRawBufferPointer) throws {
        var rest = bytes
        while !rest.isEmpty, let buffer = try current ?? empty.receive() {
            current = buffer
            let count = buffer.take(rest)
            if buffer.isFull { try submit() }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Waits until everything is written; the digest of all the file's bytes.
    func finish() throws -> SHA256Digest {
        try submit()
        full.finish()
        stage.join()
        while try empty.receive() != nil {}
        return try digest.hasher.finish()
    }

    private func submit() throws {
        if let current { try full.send(current) }
        current = nil
    }
}
