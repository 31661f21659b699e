import BundleThreads
import Glibc
package import Testing

/// Gives each test a thread of its own, a few at a time: what waits in the kernel, for a program, a browser or an answer, must not
/// take one of the threads of Swift's pool, of which there is one a core and on which the servers under test work.
package struct OwnThread: TestTrait, SuiteTrait, TestScoping {
    /// Holds for every test below.
    package let isRecursive = true

    private final class Executor: TaskExecutor {
        private let worker: SerialWorker

        init() throws { worker = try SerialWorker() }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            worker.submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        func finish() { worker.finish() }
    }

    /// Lets a few tests run at once: enough for two cores while some of them wait.
    private actor Turnstile {
        static let shared = Turnstile()
        private var free = 11
        private var waiting: [CheckedContinuation<Void, Never>] = []

        func enter() async {
            if free > 0 {
                free -= 1
            } else {
                await withCheckedContinuation { waiting.append($0) }
            }
        }

        func leave() {
            if waiting.isEmpty { free += 1 } else { waiting.removeFirst().resume() }
        }
    }

    /// Runs the test there.
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Turnstile.shared.enter()
        let began = ContinuousClock.now
        let result: Result<Void, any Error>
        do {
            let executor = try Executor()
            try await withTaskExecutorPreference(executor) { try await function() }
            executor.finish()
            result = .success(())
        } catch {
            result = .failure(error)
        }
        note(began.duration(to: .now), test)
        await Turnstile.shared.leave()
        try result.get()
    }

    /// Adds how long a test took to the file that `SWAP_CLIENTS_TEST_TIMES` names: what the runner says counts the wait for a turn, too.
    private func note(_ time: Duration, _ test: Test) {
        guard let path = getenv("SWAP_CLIENTS_TEST_TIMES") else { return }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let line = Array("\(time / .milliseconds(1)) \(test.id)\n".utf8)
        _ = write(descriptor, line, line.count)
    }
}

extension Trait where Self == OwnThread {
    /// A thread of its own for each test.
    package static var ownThread: Self { OwnThread() }
}
