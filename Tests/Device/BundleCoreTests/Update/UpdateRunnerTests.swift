import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

@testable import BundleCore
import BundleValues

/// A source whose downloads last until a test releases them.
private struct HeldSource: UpdateSource {
    final class Server: Sendable {
        struct State {
            var offered: String
            var asked = 0
            var staged: [String] = []
            var isHeld = true
            var cancelled = 0
            /// The error of a cancelled download.
            var interruption: (any Error)?
        }

        let state: Mutex<State>

        init(offering version: String) { state = Mutex(State(offered: version)) }

        var asked: Int { state.withLock { $0.asked } }
        var staged: [String] { state.withLock { $0.staged } }

        func offer(_ version: String) { state.withLock { $0.offered = version } }
        func release() { state.withLock { $0.isHeld = false } }
        func interrupt(with error: any Error) { state.withLock { $0.interruption = error } }

        func wait(until condition: @Sendable (State) -> Bool) async throws {
            while !state.withLock({ condition($0) }) { try await Task.sleep(for: .milliseconds(2)) }
        }
    }

    let server: Server

    func latestOffer(for request: OfferRequest) throws -> OfferStep<MemoryOffer> {
        let version = server.state.withLock { state in
            state.asked += 1
            return state.offered
        }
        return .offer(try MemoryOffer(version))
    }

    func stage(_ offer: MemoryOffer, in area: StagingArea, reusing installed: ReuseIndex) async throws -> StagedBundle {
        server.state.withLock { $0.staged.append(offer.version.description) }
        do {
            try await server.wait { !$0.isHeld }
        } catch {
            server.state.withLock { $0.cancelled += 1 }
            throw server.state.withLock { $0.interruption } ?? error
        }
        return try MemorySource(offer).stage(offer, in: area, reusing: installed)
    }
}

@Suite(.inTurn) struct UpdateRunnerTests {
    private let bench: StoreBench
    private let server = HeldSource.Server(offering: "1.1.0")
    private let runner: UpdateRunner<HeldSource>

    init() throws {
        let bench = try StoreBench()
        let updater = Updater(
            source: HeldSource(server: server),
            device: .init(store: bench.path, shell: try Sample.version("1.0.0"), appId: nil, keep: 5),
            environment: Environment(log: { [warnings = bench.warnings] in warnings.add($0) }))
        self.bench = bench
        runner = UpdateRunner(updater)
    }

    private static func word(_ outcome: UpdateOutcome) -> String {
        switch outcome {
        case .installed(let version, _): "installed \(version)"
        case .chosen(let version, _): "chosen \(version)"
        case .upToDate(let version, _, _): "upToDate \(version)"
        case .notInRollout(let version, _, _, _): "notInRollout \(version)"
        case .waiting(let version, _, _, _): "waiting \(version)"
        }
    }

    /// Starts a check and returns after it has asked for the offer.
    private func check() async throws -> Task<String, any Error> {
        let asked = server.asked
        let task = Task { [runner] in Self.word(try await runner.check()) }
        try await server.wait { $0.asked > asked }
        return task
    }

    private func installed() throws -> [String] {
        try Inventory.read(at: bench.path).bundles.map(\.version.description)
    }

    @Test func `concurrent checks of one offer share an update, and each returns when it is complete`() async throws {
        var checks: [Task<String, any Error>] = []
        for _ in 0..<8 { checks.append(try await check()) }
        try await server.wait { $0.staged == ["1.1.0"] }
        // A check either joins the update or finds it completed.
        try await Task.sleep(for: .seconds(1))
        server.release()
        for check in checks { #expect(["installed 1.1.0", "upToDate 1.1.0"].contains(try await check.value)) }
        #expect(server.staged == ["1.1.0"])
        #expect(try installed() == ["1.1.0"])
        #expect(bench.warnings.lines == [])
    }

    /// A cancelled download may throw an error of its own.
    @Test(arguments: [nil, UpdateFailure(.networkUnavailable, subject: "x", "cut")])
    func `replaces a running update by one to a newer offer, which both checks return`(
        interruption: UpdateFailure?
    ) async throws {
        if let interruption { server.interrupt(with: interruption) }
        let first = try await check()
        try await server.wait { $0.staged == ["1.1.0"] }
        server.offer("1.2.0")
        let second = try await check()
        try await server.wait { $0.staged == ["1.1.0", "1.2.0"] }
        server.release()
        #expect(try await second.value == "installed 1.2.0")
        #expect(try await first.value == "installed 1.2.0")
        #expect(try installed() == ["1.2.0"])
        #expect(try bench.names("staging").isEmpty)
    }

    @Test func `returns the last of three offers to every check`() async throws {
        let first = try await check()
        try await server.wait { $0.staged == ["1.1.0"] }
        server.offer("1.2.0")
        let second = try await check()
        // The third check must not come before the second.
        try await server.wait { $0.cancelled == 1 }
        server.offer("1.3.0")
        let third = try await check()
        try await server.wait { $0.staged.last == "1.3.0" }
        server.release()
        for check in [first, second, third] { #expect(try await check.value == "installed 1.3.0") }
        #expect(try installed() == ["1.3.0"])
    }

    @Test func `cancelling a caller cancels the update`() async throws {
        let first = try await check()
        try await server.wait { $0.staged == ["1.1.0"] }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        #expect(try installed() == [])
        // The next check starts a new update.
        server.release()
        #expect(try await check().value == "installed 1.1.0")
        #expect(server.staged == ["1.1.0", "1.1.0"])
    }

    @Test func `does not join a completed update`() async throws {
        server.release()
        #expect(try await check().value == "installed 1.1.0")
        #expect(try await check().value == "upToDate 1.1.0")
        server.offer("1.2.0")
        #expect(try await check().value == "installed 1.2.0")
    }

    @Test func `returns the failure of an update, and the next check starts a new one`() async throws {
        server.release()
        do {
            let store = try bench.open()
            let failure = await #expect(throws: UpdateFailure.self) { try await runner.check() }
            #expect(failure?.code == .storeLocked)
            withExtendedLifetime(store) {}
        }
        #expect(try await check().value == "installed 1.1.0")
    }
}
