import BundleTestTraits
import BundleTesting
import Synchronization
import Testing

@testable import BundleCore
import BundleValues

/// A source whose downloads last until a test lets them end.
private struct HeldSource: UpdateSource {
    final class Server: Sendable {
        struct State {
            var offered: String
            var asked = 0
            var staged: [String] = []
            var isHeld = true
            /// How many downloads were cancelled.
            var cancelled = 0
            /// What a download says when it is cancelled.
            var interruption: (any Error)?
        }

        let state: Mutex<State>

        init(offering version: String) { state = Mutex(State(offered: version)) }

        var asked: Int { state.withLock { $0.asked } }
        var staged: [String] { state.withLock { $0.staged } }

        func offer(_ version: String) { state.withLock { $0.offered = version } }
        func release() { state.withLock { $0.isHeld = false } }
        func interrupt(with error: any Error) { state.withLock { $0.interruption = error } }

        /// Returns when `condition` holds.
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
            warn: { [warnings = bench.warnings] in warnings.add($0) })
        self.bench = bench
        runner = UpdateRunner(updater)
    }

    private static func word(_ outcome: UpdateOutcome) -> String {
        switch outcome {
        case .installed(let version, _): "installed \(version)"
        case .chosen(let version, _): "chosen \(version)"
        case .upToDate(let version, _, _): "upToDate \(version)"
        case .notInRollout(let version, _, _, _): "notInRollout \(version)"
        }
    }

    /// A check that has asked for the offer; its update, if it starts one, is under way soon.
    private func check() async throws -> Task<String, any Error> {
        let asked = server.asked
        let task = Task { [runner] in Self.word(try await runner.check()) }
        try await server.wait { $0.asked > asked }
        return task
    }

    private func installed() throws -> [String] {
        try Inventory.read(at: bench.path).bundles.map(\.version.description)
    }

    @Test func `checks that find the same offer are one update, and each returns when it is done`() async throws {
        var checks: [Task<String, any Error>] = []
        for _ in 0..<8 { checks.append(try await check()) }
        try await server.wait { $0.staged == ["1.1.0"] }
        // Whoever has asked joins before long, or finds it there.
        try await Task.sleep(for: .seconds(1))
        server.release()
        for check in checks { #expect(["installed 1.1.0", "upToDate 1.1.0"].contains(try await check.value)) }
        #expect(server.staged == ["1.1.0"])
        #expect(try installed() == ["1.1.0"])
        #expect(bench.warnings.lines == [])
    }

    /// A download that is cut may say so in words of its own.
    @Test(arguments: [nil, UpdateFailure(.networkUnavailable, subject: "x", "cut")])
    func `another offer ends the update under way, and both checks get the newer one`(
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

    @Test func `of three offers the last one counts, for everybody`() async throws {
        let first = try await check()
        try await server.wait { $0.staged == ["1.1.0"] }
        server.offer("1.2.0")
        let second = try await check()
        // Else the third may come before it.
        try await server.wait { $0.cancelled == 1 }
        server.offer("1.3.0")
        let third = try await check()
        try await server.wait { $0.staged.last == "1.3.0" }
        server.release()
        for check in [first, second, third] { #expect(try await check.value == "installed 1.3.0") }
        #expect(try installed() == ["1.3.0"])
    }

    @Test func `a caller that is cancelled ends the update`() async throws {
        let first = try await check()
        try await server.wait { $0.staged == ["1.1.0"] }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        #expect(try installed() == [])
        // The next one starts anew.
        server.release()
        #expect(try await check().value == "installed 1.1.0")
        #expect(server.staged == ["1.1.0", "1.1.0"])
    }

    @Test func `an update that is done is not joined`() async throws {
        server.release()
        #expect(try await check().value == "installed 1.1.0")
        #expect(try await check().value == "upToDate 1.1.0")
        server.offer("1.2.0")
        #expect(try await check().value == "installed 1.2.0")
    }

    @Test func `a failure is told, and the next check starts anew`() async throws {
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
