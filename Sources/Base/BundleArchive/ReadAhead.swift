import BundleValues

/// Decodes on a separate thread, a few blocks ahead of the reader, so that decompression overlaps with later steps.
final class ReadAhead {
    private static let blocks = 3

    /// Unchecked Sendable: one side owns a block at a time.
    private final class DecodedBlock: @unchecked Sendable {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 4096)
        var count = 0
        /// The compressed bytes consumed up to this block, at most.
        var consumed = 0

        deinit { room.deallocate() }
    }

    private let empty: Pipe<DecodedBlock, ArchiveFailure>
    private let filled = Pipe<DecodedBlock, ArchiveFailure>(capacity: blocks)
    private let decoder: PipeStage
    private var held: DecodedBlock?
    /// The compressed bytes consumed for the returned blocks, at most.
    private(set) var consumedEstimate = 0
    /// The decoded bytes returned so far.
    private(set) var produced = 0

    init(_ source: any DecodingStream) throws(ArchiveFailure) {
        empty = Pipe(capacity: Self.blocks, holding: (0..<Self.blocks).map { _ in DecodedBlock() })
        // Only the decoding thread uses it from here on.
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

    /// Returns the next decoded bytes, valid until the next call; empty at the end.
    func read() throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        // A decoder that ended receives no more blocks. Its result follows the blocks that it filled.
        if let held { empty.sendNow(held) }
        held = try filled.receive()
        guard let held else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        produced += held.count
        consumedEstimate = held.consumed
        return UnsafeRawBufferPointer(rebasing: held.room[..<held.count])
    }
}
