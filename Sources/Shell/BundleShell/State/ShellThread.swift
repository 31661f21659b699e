import BundleValues

/// An executor with one thread for an actor whose disk access must not block other tasks.
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

/// An executor with one thread for long work on files, outside the tasks' pool.
final class RemovalThread: TaskExecutor {
    private let worker: SerialWorker

    init() throws(ThreadFailure) { worker = try SerialWorker() }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        worker.submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
