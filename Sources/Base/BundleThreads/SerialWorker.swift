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
