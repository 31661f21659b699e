import BundleTestTraits
import BundleValues
import Synchronization
import Testing

@Suite("BlockingThread and SerialWorker", .ownThread) struct ThreadTests {
    @Test func `runs the jobs of a worker in order before it finishes`() throws {
        let worker = try SerialWorker()
        let seen = Mutex<[Int]>([])
        for number in 0..<1000 { worker.submit { seen.withLock { $0.append(number) } } }
        worker.finish()
        #expect(seen.withLock(\.self) == Array(0..<1000))
    }

    @Test func `runs the submitted jobs of a worker that is deinitialized`() throws {
        let count = Mutex(0)
        do {
            let worker = try SerialWorker()
            for _ in 0..<100 { worker.submit { count.withLock { $0 += 1 } } }
        }
        #expect(count.withLock(\.self) == 100)
    }

    @Test func `returns the value or error of blocking work to an asynchronous caller`() async throws {
        struct Refused: Error {}
        #expect(try await onThread { 7 } == 7)
        await #expect(throws: Refused.self) { try await onThread { throw Refused() } }
    }

    /// Starts more threads than Dispatch's pool of 255, each of which waits for another one, as the stages of an archive
    /// do.
    @Test func `does not exhaust a pool when many threads wait for each other`() async throws {
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
