import BundleThreads

/// Runs an actor on a thread of its own, so that what it does to the disk blocks nobody else.
final class ShellThread: SerialExecutor {
    private let worker: SerialWorker

    init() throws(ThreadFailure) {
        worker = try SerialWorker()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        worker.submit { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
