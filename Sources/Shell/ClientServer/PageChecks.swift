import BundleCore
import BundleValues
import Synchronization
import BundleShell

/// The checks for updates that pages request, and the calls that wait for their outcome.
final class PageChecks: Sendable {
    /// The longest time that a page waits for the outcome of a check. A download may take hours.
    private static let longestAnswer = Duration.seconds(20)
    /// The largest number of calls that wait for a check. Each holds a connection.
    private static let mostWaitingCalls = 8

    private let shell: ClientShell
    private let bridge: LoopbackBridge
    private let clock: any Clock<Duration>
    private let requests: AsyncStream<Void>
    private let request: AsyncStream<Void>.Continuation
    /// The calls that wait for the outcome of the next check.
    private let waiting = Mutex<[AsyncStream<JSONObject>.Continuation]>([])

    init(_ shell: ClientShell, _ bridge: LoopbackBridge, _ clock: any Clock<Duration>) {
        self.shell = shell
        self.bridge = bridge
        self.clock = clock
        (requests, request) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Carries out requested checks until it is cancelled.
    func run() async {
        await withDiscardingTaskGroup { running in
            let stopwatch = Stopwatch(clock)
            var pace = CheckPace()
            for await _ in requests {
                // Checks may overlap: during a long download a newer release may appear.
                running.addTask { await self.check() }
                // Limits the rate at which pages can request checks.
                try? await clock.sleep(for: pace.pause(at: stopwatch.elapsed))
            }
        }
    }

    /// Requests a check and returns its outcome; `checking` if it takes long.
    func outcome() async -> JSONObject {
        let (outcomes, page) = AsyncStream<JSONObject>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let mayWait = waiting.withLock { waiting in
            if waiting.count < Self.mostWaitingCalls { waiting.append(page) }
            return waiting.count < Self.mostWaitingCalls
        }
        request.yield()
        if !mayWait { return ["outcome": .string("checking")] }
        return await withTaskGroup { [clock] group in
            group.addTask { await outcomes.first { _ in true } }
            group.addTask {
                _ = try? await clock.sleep(for: Self.longestAnswer)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next().flatMap(\.self) ?? ["outcome": .string("checking")]
        }
    }

    /// Checks for an update and reports the outcome to the calls that wait for it. A failure is also an event of the shell.
    private func check() async {
        let asked = waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
        let outcome: JSONObject
        do {
            try await shell.checkForUpdates()
            outcome = Self.outcome(bridge.withScreen(\.status))
        } catch {
            outcome = Self.outcome(UpdateFailure(error))
        }
        for page in asked { page.yield(outcome) }
    }

    private static func outcome(_ status: ShellStatus) -> JSONObject {
        if let name = status.available {
            return ["outcome": .string("updateAvailable"), "version": .string(name.shortDescription)]
        }
        guard var outcome = status.waiting?.members else { return ["outcome": .string("upToDate")] }
        outcome["outcome"] = .string("waiting")
        return outcome
    }

    /// Returns the outcome of a check with this failure.
    static func outcome(_ failure: UpdateFailure) -> JSONObject {
        [
            "outcome": .string("failed"), "code": .string(failure.code.rawValue), "message": .string(failure.message),
        ]
    }
}

/// The pauses after checks that pages request: short after one request, and longer for a page in a loop.
struct CheckPace {
    static let shortest = Duration.seconds(1)
    static let longest = Duration.seconds(10)

    private var next = shortest
    private var last: Duration?

    /// Returns the pause after a check that begins at `reading`.
    mutating func pause(at reading: Duration) -> Duration {
        if let last, reading - last > Self.longest * 2 { next = Self.shortest }
        last = reading
        defer { next = min(next * 2, Self.longest) }
        return next
    }
}
