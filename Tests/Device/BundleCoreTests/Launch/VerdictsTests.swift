import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct VerdictsTests {
    private static func code(_ body: () throws -> Void) -> FailureCode? {
        (#expect(throws: UpdateFailure.self) { try body() })?.code
    }

    private static let white = StartFailure(.reported, detail: "white", at: .now)

    // MARK: On a launch

    @Test func `accepts a verdict only with the token of the last launch`() async throws {
        let bench = try await LaunchBench(installing: "1.1.0")
        let old = try bench.launch()
        let new = try bench.launch()
        let verdicts = try bench.verdicts()
        #expect(new.name == .embedded)
        let wrong: [(ClientName, LaunchToken)] = [
            (old.name, old.token), (new.name, old.token), (old.name, new.token), (new.name, try .random()),
            (new.name, LaunchToken(text: "")), (new.name, LaunchToken(text: new.token.text.uppercased())),
        ]
        let before = try bench.ledger()
        for (name, token) in wrong {
            #expect(Self.code { _ = try verdicts.confirm(name, token) } == .versionMismatch)
            #expect(Self.code { _ = try verdicts.fail(name, token, Self.white) } == .versionMismatch)
        }
        #expect(try bench.ledger() == before)
        #expect(try !verdicts.confirm(new.name, new.token))
        #expect(try bench.ledger().lastKnownGood == .embedded)
    }

    @Test func `refuses a verdict before the first launch`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let name = try Sample.name("1.0.0")
        #expect(Self.code { _ = try bench.verdicts().confirm(name, try .random()) } == .versionMismatch)
        #expect(Self.code { _ = try Verdicts(store: bench.path("none"), environment: Environment()) } == .configInvalid)
    }

    @Test func `accepts the same verdict again but refuses the other one`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let verdicts = try bench.verdicts()
        let good = try bench.launch()
        #expect(try !verdicts.confirm(good.name, good.token))
        #expect(try verdicts.confirm(good.name, good.token))
        #expect(Self.code { _ = try verdicts.fail(good.name, good.token, Self.white) } == .versionMismatch)
        try await bench.install("1.1.0")
        let bad = try bench.launch()
        #expect(try !verdicts.fail(bad.name, bad.token, Self.white).hadFailed)
        let again = try verdicts.fail(bad.name, bad.token, Self.white)
        #expect(again.hadFailed)
        #expect(again.failures == 1)
        #expect(again.next?.name == good.name)
        #expect(Self.code { _ = try verdicts.confirm(bad.name, bad.token) } == .healthFailed)
    }

    @Test func `a confirmed start clears earlier failures`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndFail()
        #expect(try bench.launch().name == .embedded)
        #expect(try bench.launchAndConfirm().description == "v1.0.0")
        #expect(try bench.ledger().record(of: try Sample.version("1.0.0"))?.failures == [])
        // The next failure is the first one again.
        #expect(try bench.launchAndFail().block == nil)
    }

    @Test func `a confirmed client that fails is no longer confirmed`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        let fall = try bench.launchAndFail()
        #expect(fall.next?.name == .embedded)
        #expect(try bench.ledger().lastKnownGood == .embedded)
        _ = try bench.launch()
        #expect(try bench.launch().isTrial)
    }

    @Test func `falls back to the client that was confirmed before the failed one`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0")
        for version in ["1.1.0", "1.2.0"] {
            _ = try bench.launchAndConfirm()
            try await bench.install(version)
        }
        _ = try bench.launchAndConfirm()
        #expect(try bench.launchAndFail().next?.name.description == "v1.1.0")
    }

    @Test func `cuts a detail of a page to one printable line`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let launched = try bench.launch()
        let failure = StartFailure(.reported, detail: "a\u{1B}[2J\nb" + String(repeating: "x", count: 2000), at: .now)
        _ = try bench.verdicts().fail(launched.name, launched.token, failure)
        let detail = try #require(try bench.ledger().records.first?.failures.first?.detail)
        #expect(detail.unicodeScalars.allSatisfy { $0.value >= 32 })
        #expect(detail.count <= 450)
    }

    @Test func `keeps the limit of clients and the previous one after a confirmed start`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        for version in ["1.1.0", "1.2.0", "1.3.0"] { try await bench.install(version) }
        let launched = try bench.launch()
        let verdicts = try bench.verdicts()
        _ = try verdicts.confirm(launched.name, launched.token)
        let plan = try #require(await verdicts.retain(1))
        #expect(plan.retained.map(\.shortDescription) == ["1.0.0", "1.3.0"])
    }

    // MARK: By hand

    @Test func `rolls back to the last known good client and blocks newer ones`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        for version in ["1.1.0", "1.2.0"] { try await bench.install(version) }
        let result = try bench.verdicts().rollBack(to: nil).back()
        #expect(result.target.description == "v1.0.0")
        #expect(result.blocked.map(\.shortDescription) == ["1.1.0", "1.2.0"])
        #expect(try bench.launch().name == result.target)
        let failure = await #expect(throws: UpdateFailure.self) { try await bench.install("1.2.0") }
        #expect(failure?.code == .versionBlocked)
        try await bench.install("1.3.0")
        #expect(try bench.launch().name.description == "v1.3.0")
        #expect(try bench.verdicts().unblock(try Sample.version("1.2.0")))
        #expect(try !bench.verdicts().unblock(try Sample.version("1.2.0")))
    }

    @Test func `refuses to roll back from a confirmed client after an automatic rollback`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        let failed = try Sample.name("1.1.0")
        for attempt in 1...2 {
            _ = try bench.launchAndFail()
            _ = try bench.launchAndConfirm()
            let before = try bench.ledger()
            let answer = try bench.verdicts().rollBack(to: nil)
            guard case .alreadyBack(let runs, let advice) = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(runs == (try Sample.name("1.0.0")))
            #expect(advice.contains("v1.1.0 failed and was rolled back already"))
            #expect(
                advice.contains(
                    "`clientctl rollback --of 1.0.0` rolls back from v1.0.0, the current client, to embedded"))
            #expect(try bench.ledger() == before, "\(attempt)")
        }
        // The failed client is blocked, so it is neither current nor next.
        #expect(try bench.verdicts().rollBack(to: nil, of: failed) == .notShown(failed))
        #expect(try bench.launch().name == (try Sample.name("1.0.0")))
        #expect(try bench.verdicts().rollBack(to: nil, of: try Sample.name("1.0.0")).back().target == .embedded)
    }

    @Test func `rolls back from a client that awaits its retry and blocks only that one`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        let failed = try Sample.name("1.1.0")
        _ = try bench.launchAndFail()
        _ = try bench.launchAndConfirm()
        #expect(
            try bench.verdicts().rollBack(to: nil, of: failed)
                == .back(target: try Sample.name("1.0.0"), blocked: [failed]))
        let block = try #require(try bench.ledger().block(on: try Sample.version("1.1.0")))
        #expect(block.reason.contains("was reported as failed: white"))
        #expect(try bench.launch().name == (try Sample.name("1.0.0")))
    }

    @Test func `rolls back to the next lower client, then to the seed, then refuses`()
        async throws
    {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try bench.launch()
        #expect(try bench.verdicts().rollBack(to: nil).back().target.description == "v1.0.0")
        #expect(try bench.verdicts().rollBack(to: nil).back().target == .embedded)
        guard case .nothingBelow(.embedded, _) = try bench.verdicts().rollBack(to: nil) else {
            Issue.record("a client ranks below the seed")
            return
        }
        #expect(try bench.launch().name == .embedded)
    }

    @Test func `refuses a target that cannot run and changes nothing`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        try await bench.install(try MemoryOffer("1.1.0", minimumShell: "2.0.0"), shell: "2.0.0")
        try await bench.install("1.2.0")
        try bench.editLedger {
            $0.block(Ledger.Block(version: $0.entries[0].version, cause: .byHand, reason: "x", count: 0, since: .now))
        }
        _ = try bench.launch()
        let before = try bench.ledger()
        for (target, code) in [("1.0.0", FailureCode.versionBlocked), ("1.1.0", .incompatibleShell), ("7.0.0", .usage)]
        {
            #expect(Self.code { _ = try bench.verdicts().rollBack(to: try Sample.name(target)) } == code)
        }
        #expect(try bench.ledger() == before)
    }

    @Test func `refuses to roll back to the seed of a shell without one`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launcher(try bench.device(seed: nil)).launch()
        #expect(Self.code { _ = try bench.verdicts().rollBack(to: .embedded) } == .usage)
        #expect(try bench.ledger().blocks == [])
    }

    /// The last launch, of 1.2.0, is still on trial, failed once, or failed twice. 1.0.0 is the last known good
    /// client.
    @Test(arguments: [0, 1, 2], ["1.1.0", "1.2.0", "1.0.0", "embedded"])
    func `launches the target of a rollback after any result of the last launch`(
        failures: Int, target: String
    ) async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        try await bench.install("1.2.0")
        for failure in 0..<failures {
            if failure > 0 { #expect(try bench.launch().name.description == "v1.0.0") }
            _ = try bench.launchAndFail()
        }
        if failures == 0 { _ = try bench.launch() }
        let target = try Sample.name(target)
        if failures == 2, target == (try Sample.name("1.2.0")) {
            #expect(Self.code { _ = try bench.verdicts().rollBack(to: target) } == .versionBlocked)
            return
        }
        _ = try bench.verdicts().rollBack(to: target)
        let launched = try bench.launch()
        // A running trial fails when the next shell starts, so the last known good client is shown.
        #expect(
            launched.name
                == (failures == 0 && target.version?.description == "1.2.0" ? try Sample.name("1.0.0") : target))
    }

    @Test func `an unblocked client runs as if it had never failed`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndFail()
        _ = try bench.launch()
        _ = try bench.launchAndFail()
        #expect(try bench.verdicts().unblock(try Sample.version("1.0.0")))
        #expect(try bench.ledger().standing(of: try Sample.version("1.0.0")) == .staged)
        #expect(try bench.launch().name.description == "v1.0.0")
    }

    @Test func `a client that was left by hand stays blocked by hand after it fails`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        _ = try bench.launchAndFail()
        _ = try bench.launchAndConfirm()
        let retried = try bench.launch()
        #expect(retried.name.description == "v1.1.0")
        let verdicts = try bench.verdicts()
        _ = try verdicts.rollBack(to: try Sample.name("1.0.0"))
        _ = try verdicts.fail(retried.name, retried.token, Self.white)
        let block = try #require(try bench.ledger().block(on: try Sample.version("1.1.0")))
        #expect(block.cause == .byHand)
        #expect(block.reason.contains("rolled back by hand"))
    }

    @Test func `a rollback by hand survives a new seed even if the version failed twice before`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        for _ in 0..<5 { _ = try bench.launch() }
        #expect(try bench.ledger().block(on: try Sample.version("1.1.0"))?.cause == .failedStarts)
        // A version that was blocked before is not reported again and keeps its failure details.
        #expect(try bench.verdicts().rollBack(to: try Sample.name("1.0.0")).back().blocked == [])
        let block = try #require(try bench.ledger().block(on: try Sample.version("1.1.0")))
        #expect(block.cause == .byHand && block.count == 2)
        #expect(block.reason.hasPrefix("rolled back by hand to v1.0.0; before, it failed to start 2 times; "))
        try bench.seed("seed 2")
        #expect(try bench.launcher(try bench.device(seed: bench.path("seed"))).launch().name.description == "v1.0.0")
    }

    @Test func `never falls back to a client that was left by hand, even if it confirms late`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        let late = try bench.launch()
        let verdicts = try bench.verdicts()
        _ = try verdicts.rollBack(to: try Sample.name("1.0.0"))
        #expect(try !verdicts.confirm(late.name, late.token))
        #expect(try bench.ledger().lastKnownGood.description == "v1.0.0")
        try await bench.install("1.2.0")
        #expect(try bench.launchAndFail().next?.name.description == "v1.0.0")
    }

    @Test func `an update without a seed keeps the fallback of a failed launch`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0", "1.1.0")
        let launched = try bench.launcher(try bench.device(seed: nil)).launch()
        let fall = try bench.verdicts().fail(launched.name, launched.token, Self.white)
        #expect(fall.next?.name.description == "v1.0.0")
        try await bench.install(try MemoryOffer("1.1.0"), keep: 1)
        #expect(try bench.ledger().pending?.description == "v1.0.0")
        #expect(try Inventory.read(at: bench.store).bundles.map(\.version.description) == ["1.0.0", "1.1.0"])
    }
}
