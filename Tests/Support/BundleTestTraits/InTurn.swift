import BundleThreads
import Glibc
package import Testing

/// Lets a few tests run at once, and gives each five minutes from its turn on.
///
/// A test that starts servers or programs, or that waits for time to pass, takes turns: the runner starts all tests at once, and
/// with hundreds of servers every wait would be as long as the whole run. Swift Testing's own time limit includes the wait for a
/// turn, so that it would fail tests that did not hang.
package struct InTurn: TestTrait, SuiteTrait, TestScoping {
    /// Applies to each test of a suite.
    package let isRecursive = true
    /// Whether a test gets a thread of the operating system, because it blocks its thread: on one of the threads of Swift's pool,
    /// which has one a core, it would stop the servers under test.
    fileprivate let ownThread: Bool

    private static let limit = Duration.seconds(300)

    private final class Executor: TaskExecutor {
        private let worker: SerialWorker

        init() throws { worker = try SerialWorker() }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            worker.submit { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        func finish() { worker.finish() }
    }

    private actor Turnstile {
        static let shared = Turnstile()
        /// Enough for two cores, while some of the tests wait.
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

    /// Runs the test in its turn.
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Turnstile.shared.enter()
        let began = ContinuousClock.now
        let result: Result<Void, any Error>
        do {
            try await run(test, function)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        note(began.duration(to: .now), test)
        await Turnstile.shared.leave()
        try result.get()
    }

    /// Runs `function`, and records an issue if it takes longer than the limit. A test that blocks its thread cannot be ended, so
    /// the issue is what names it in the log of a run that hangs.
    private func run(_ test: Test, _ function: @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await Task.sleep(for: Self.limit)
                Issue.record("\(test.id) has run for \(Self.limit) and goes on")
            }
            if ownThread {
                let executor = try Executor()
                defer { executor.finish() }
                try await withTaskExecutorPreference(executor) { try await function() }
            } else {
                try await function()
            }
            group.cancelAll()
        }
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

extension Trait where Self == InTurn {
    /// One of a few tests at once.
    package static var inTurn: Self { InTurn(ownThread: false) }

    /// One of a few tests at once, with a thread that it may block.
    package static var ownThread: Self { InTurn(ownThread: true) }
}
