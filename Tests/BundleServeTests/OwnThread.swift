import BundleThreads
import Testing

/// Gives each test a thread of its own: a client here waits in the kernel, and Swift's pool, which the host works on, has a thread a core.
struct OwnThread: TestTrait, SuiteTrait, TestScoping {
    let isRecursive = true

    private final class Executor: TaskExecutor {
        private let worker: SerialWorker

        init() throws { worker = try SerialWorker() }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            worker.submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        func finish() { worker.finish() }
    }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let executor = try Executor()
        defer { executor.finish() }
        try await withTaskExecutorPreference(executor) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    static var ownThread: Self { OwnThread() }
}
