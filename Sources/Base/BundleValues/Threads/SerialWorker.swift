import Synchronization

/// A thread that runs jobs one after another, in the order of their submission.
package final class SerialWorker: Sendable {
    private typealias Job = @Sendable () -> Void

    private let jobs: Pipe<Job, Never>
    private let thread: BlockingThread

    /// Starts the thread. `submitWaiting` waits while `capacity` jobs are queued.
    package init(capacity: Int = .max) throws(ThreadFailure) {
        let jobs = Pipe<Job, Never>(capacity: capacity)
        self.jobs = jobs
        thread = try BlockingThread {
            while let job = jobs.receive() { job() }
        }
    }

    /// Submits a job without waiting.
    package func submit(_ job: @escaping @Sendable () -> Void) { jobs.sendNow(job) }

    /// Submits a job, and waits while the queue is full.
    package func submitWaiting(_ job: @escaping @Sendable () -> Void) { jobs.send(job) }

    deinit { finish() }

    /// Runs all submitted jobs and ends the thread. No job may be submitted afterwards.
    package func finish() {
        jobs.finish()
        thread.join()
    }
}

/// The thread that starts other programs. It was started before the process confined itself, so the restrictions of the
/// process do not apply to the programs. Without it, programs start on the calling thread, and a confined process cannot
/// start any.
package enum SpawnThread {
    private static let thread = Mutex<SerialWorker?>(nil)

    /// Starts the thread, which runs until the process ends.
    package static func start() throws(ThreadFailure) {
        let worker = try SerialWorker()
        thread.withLock { $0 = worker }
    }

    /// Runs `start`, which calls posix_spawn, and returns its result. The thread blocks signals, so `start` has to set
    /// the signal mask of its program.
    package static func run<Value: Sendable>(_ start: @escaping @Sendable () throws -> Value) throws -> Value {
        guard let worker = thread.withLock({ $0 }) else { return try start() }
        let answer = Pipe<Result<Value, any Error>, Never>(capacity: 1)
        worker.submit { answer.send(Result { try start() }) }
        guard let result = answer.receive() else { return try start() }
        return try result.get()
    }
}
