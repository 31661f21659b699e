import BundleValues
import Glibc
package import Testing

/// Limits the number of tests that run at once, and gives each five minutes from its start.
///
/// Tests that start servers or programs, or that wait for time to pass, have this trait. The test runner starts all tests
/// at once, and with hundreds of servers every wait would be as long as the whole run. Swift Testing's own time limit
/// includes the wait for a turn, so it would fail tests that do not hang.
package struct InTurn: TestTrait, SuiteTrait, TestScoping {
    /// The trait applies to each test of a suite.
    package let isRecursive = true
    /// Whether a test gets an operating system thread because it blocks. On a thread of Swift's pool, which has one per
    /// core, it would stop the servers under test.
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
        /// Enough for two cores, because some of the tests wait.
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

    /// Runs a test in its turn.
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

    /// Runs `function` and records an issue if it exceeds the limit. A blocking test cannot be ended, but the issue names
    /// it in the log of a run that hangs.
    private func run(_ test: Test, _ function: @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await Task.sleep(for: Self.limit)
                Issue.record("\(test.id) has run for \(Self.limit) and continues")
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

    /// Appends the duration of a test to the file in `SWAP_CLIENTS_TEST_TIMES`, because the durations of the test runner
    /// include the wait for a turn.
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
    /// Limits the number of tests at once.
    package static var inTurn: Self { InTurn(ownThread: false) }

    /// Limits the number of tests at once and gives each a thread that it may block.
    package static var ownThread: Self { InTurn(ownThread: true) }
}
