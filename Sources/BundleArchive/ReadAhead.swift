import BundleThreads
import Dispatch
import Synchronization

/// Decodes on a thread of its own, a few blocks ahead of the reader, so that decompression and everything after it overlap.
///
/// Sendable, unchecked: each slot is owned by one side at a time; the two semaphores hand it over.
final class ReadAhead: @unchecked Sendable {
    private static let slots = 3
    private static let slotBytes = 256 * 1024

    private enum Slot {
        case empty
        case filled(Int)
        case failed(ArchiveFailure)
    }

    private let source: any DecodingStream
    private let buffers: [UnsafeMutableRawBufferPointer]
    private let outcomes: UnsafeMutablePointer<Slot>
    private let empty = DispatchSemaphore(value: 0)
    private let filled = DispatchSemaphore(value: 0)
    private var thread: BlockingThread?
    private let isCancelled = Atomic(false)
    private var next = 0
    private var holdsSlot = false
    /// Compressed bytes that the decoded blocks handed out so far needed at most.
    var consumedEstimate: Int { consumed.load(ordering: .relaxed) }
    private let consumed = Atomic(0)
    /// Decoded bytes handed out so far.
    private(set) var produced = 0

    init(_ source: any DecodingStream) throws(ArchiveFailure) {
        self.source = source
        buffers = (0..<Self.slots).map { _ in .allocate(byteCount: Self.slotBytes, alignment: 4096) }
        outcomes = .allocate(capacity: Self.slots)
        outcomes.initialize(repeating: .empty, count: Self.slots)
        for _ in 0..<Self.slots { empty.signal() }
        do {
            thread = try BlockingThread { [self] in decode() }
        } catch {
            throw .system(operation: "start a thread for", code: error.code)
        }
    }

    deinit {
        for buffer in buffers { buffer.deallocate() }
        outcomes.deinitialize(count: Self.slots)
        outcomes.deallocate()
    }

    private func decode() {
        var index = 0
        while true {
            empty.wait()
            if isCancelled.load(ordering: .acquiring) { return }
            let slot = index % Self.slots
            do {
                let count = try source.read(into: buffers[slot])
                consumed.store(source.consumed, ordering: .relaxed)
                outcomes[slot] = .filled(count)
                filled.signal()
                if count == 0 { return }
            } catch {
                outcomes[slot] = .failed(error)
                filled.signal()
                return
            }
            index += 1
        }
    }

    /// The next decoded bytes, valid until the following call; empty at the end.
    func read() throws(ArchiveFailure) -> UnsafeRawBufferPointer {
        if holdsSlot {
            holdsSlot = false
            empty.signal()
        }
        filled.wait()
        let slot = next % Self.slots
        switch outcomes[slot] {
        case .filled(0), .empty:
            filled.signal()
            return UnsafeRawBufferPointer(start: nil, count: 0)
        case .failed(let failure):
            filled.signal()
            throw failure
        case .filled(let count):
            next += 1
            holdsSlot = true
            produced += count
            return UnsafeRawBufferPointer(rebasing: buffers[slot][..<count])
        }
    }

    /// Ends the decoding thread and waits for it; called once, last.
    func stop() {
        isCancelled.store(true, ordering: .releasing)
        for _ in 0..<Self.slots { empty.signal() }
        thread?.join()
    }
}
