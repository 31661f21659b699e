import BundleThreads

/// Decodes on a thread of its own, a few blocks ahead of the reader, so that decompression and everything after it overlap.
final class ReadAhead {
    private static let blocks = 3

    /// Sendable, unchecked: owned by one side at a time.
    private final class Block: @unchecked Sendable {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
        var count = 0
        /// Compressed bytes that it and those before it needed at most.
        var consumed = 0

        deinit { room.deallocate() }
    }

    private let empty: Pipe<Block, ArchiveFailure>
    private let filled = Pipe<Block, ArchiveFailure>(capacity: blocks)
    private let decoder: PipeStage
    private var held: Block?
    /// Compressed bytes that the decoded blocks handed out so far needed at most.
    private(set) var consumedEstimate = 0
    /// Decoded bytes handed out so far.
    private(set) var produced = 0

    init(_ source: any DecodingStream) throws(ArchiveFailure) {
        empty = Pipe(capacity: Self.blocks, holding: (0..<Self.blocks).map { _ in Block() })
        // From here on it is the decoding thread's.
        nonisolated(unsafe) let source = source
        do {
            decoder = try PipeStage(from: empty, to: filled) { block throws(ArchiveFailure) in
                block.count = try source.read(into: block.room)
                block.consumed = source.consumed
                return block.count == 0 ? nil : block
            }
        } catch {
            throw .system(operation: "start a thread for", code: error.code)
        }
    }

    /// The next decoded bytes, valid until the following call; empty at the end.
    func read() throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        // A decoder that has ended takes no more; how it ended comes behind the blocks that it filled.
        if let held { empty.sendNow(held) }
        held = try filled.receive()
        guard let held else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        produced += held.count
        consumedEstimate = held.consumed
        return UnsafeRawBufferPointer(rebasing: held.room[..<held.count])
    }
}
