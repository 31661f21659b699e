import BundleTestTraits
import BundleThreads
import Synchronization
import Testing

@Suite(.ownThread) struct ThreadTests {
    @Test func `a worker runs its jobs in order and is done when it has finished`() throws {
        let worker = try SerialWorker()
        let seen = Mutex<[Int]>([])
        for number in 0..<1000 { worker.submit { seen.withLock { $0.append(number) } } }
        worker.finish()
        #expect(seen.withLock(\.self) == Array(0..<1000))
    }

    @Test func `a worker that is let go still does what it was given`() throws {
        let count = Mutex(0)
        do {
            let worker = try SerialWorker()
            for _ in 0..<100 { worker.submit { count.withLock { $0 += 1 } } }
        }
        #expect(count.withLock(\.self) == 100)
    }

    @Test func `blocking work brings its value or its error to an asynchronous caller`() async throws {
        struct Refused: Error {}
        #expect(try await onThread { 7 } == 7)
        await #expect(throws: Refused.self) { try await onThread { throw Refused() } }
    }

    /// More than Dispatch's pool of 255 threads, each waiting for another one: an archive's stages do the same.
    @Test func `many threads that wait for each other do not use up a pool`() async throws {
        let done = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<300 {
                group.addTask {
                    try await onThread {
                        let worker = try SerialWorker()
                        let value = Mutex(0)
                        worker.submit { value.withLock { $0 = number } }
                        worker.finish()
                        return value.withLock(\.self)
                    }
                }
            }
            return try await group.reduce(into: Set<Int>()) { $0.insert($1) }
        }
        #expect(done == Set(0..<300))
    }
}
