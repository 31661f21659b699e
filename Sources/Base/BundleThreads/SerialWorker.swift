import Synchronization

/// A thread that runs jobs one after the other, in the order they were handed over.
package final class SerialWorker: Sendable {
    private typealias Job = @Sendable () -> Void

    private let jobs: Pipe<Job, Never>
    private let thread: BlockingThread

    /// Starts the thread; `capacity` is how many jobs may wait before `submitWaiting` does.
    package init(capacity: Int = .max) throws(ThreadFailure) {
        let jobs = Pipe<Job, Never>(capacity: capacity)
        self.jobs = jobs
        thread = try BlockingThread {
            while let job = jobs.receive() { job() }
        }
    }

    /// Hands over a job, without waiting.
    package func submit(_ job: @escaping @Sendable () -> Void) { jobs.sendNow(job) }

    /// Hands over a job, as soon as few enough are waiting.
    package func submitWaiting(_ job: @escaping @Sendable () -> Void) { jobs.send(job) }

    deinit { finish() }

    /// Waits until everything handed over is done and ends the thread; the last call.
    package func finish() {
        jobs.finish()
        thread.join()
    }
}

/// Where programs are started: on a thread that was there before this process confined itself, so that they are not held to what
/// this process needs. Where there is none they are started where they are asked for, and a process that confined itself starts none.
package enum Starting {
    private static let thread = Mutex<SerialWorker?>(nil)

    /// Starts the thread; it has nothing else to do, and it ends with the process.
    package static func begin() throws(ThreadFailure) {
        let worker = try SerialWorker()
        thread.withLock { $0 = worker }
    }

    /// What `start` gives, which calls posix_spawn. Signals are blocked there, so it has to give its program a mask of its own.
    package static func run<Value: Sendable>(_ start: @escaping @Sendable () throws -> Value) throws -> Value {
        guard let worker = thread.withLock({ $0 }) else { return try start() }
        let answer = Pipe<Result<Value, any Error>, Never>(capacity: 1)
        worker.submit { answer.send(Result { try start() }) }
        guard let result = answer.receive() else { return try start() }
        return try result.get()
    }
}
