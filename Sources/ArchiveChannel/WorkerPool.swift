import Dispatch
import Synchronization

/// Threads that take jobs from a bounded queue, in the order of submission.
///
/// Blocking system calls belong on threads of their own, not on Swift's cooperative pool. Unchecked: the queue is behind the
/// mutex, the semaphores count what is in it.
final class WorkerPool<Job: Sendable>: @unchecked Sendable {
    private let jobs = Mutex<[Job?]>([])
    private let available = DispatchSemaphore(value: 0)
    private let finished = DispatchGroup()
    private let workers: Int

    /// Starts `workers` threads; each makes its own `body`, so that a thread can keep buffers to itself.
    init(workers: Int, makeBody: @escaping @Sendable () -> (Job) -> Void) {
        self.workers = workers
        for index in 0..<workers {
            finished.enter()
            DispatchQueue(label: "clientctl.writer.\(index)").async { [self] in
                let body = makeBody()
                while let job = next() { body(job) }
                finished.leave()
            }
        }
    }

    /// Hands over a job.
    func submit(_ job: Job) {
        jobs.withLock { $0.append(job) }
        available.signal()
    }

    /// Lets the threads finish what was submitted, and waits for them.
    func finish() {
        for _ in 0..<workers {
            jobs.withLock { $0.append(nil) }
            available.signal()
        }
        finished.wait()
    }

    private func next() -> Job? {
        available.wait()
        return jobs.withLock { $0.removeFirst() }
    }
}
