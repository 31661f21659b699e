import Dispatch
import Synchronization

/// A thread that runs jobs one after the other, in the order they were handed over.
public final class SerialWorker: Sendable {
    private typealias Job = @Sendable () -> Void

    private final class Queue: Sendable {
        private let jobs = Mutex<[Job?]>([])
        private let available = DispatchSemaphore(value: 0)

        func put(_ job: Job?) {
            jobs.withLock { $0.append(job) }
            available.signal()
        }

        /// Nil when the owner has ended the queue.
        func take() -> Job? {
            available.wait()
            return jobs.withLock { $0.removeFirst() }
        }
    }

    private let queue = Queue()
    private let thread: BlockingThread
    private let isFinished = Atomic(false)

    /// Starts the thread.
    public init() throws(ThreadFailure) {
        let queue = queue
        thread = try BlockingThread {
            while let job = queue.take() { job() }
        }
    }

    /// Hands over a job.
    public func submit(_ job: @escaping @Sendable () -> Void) { queue.put(job) }

    deinit { finish() }

    /// Waits until everything handed over is done and ends the thread; the last call.
    public func finish() {
        if isFinished.exchange(true, ordering: .relaxed) { return }
        queue.put(nil)
        thread.join()
    }
}
