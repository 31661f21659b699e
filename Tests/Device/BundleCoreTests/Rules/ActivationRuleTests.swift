import Testing

@testable import BundleCore
import BundleValues

@Suite struct ActivationRuleTests {
    /// Returns a device on which 1.0.0 runs and is confirmed, with 1.1.0 installed after it.
    private func bench() async throws -> LaunchBench {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        return bench
    }

    private func inventory(_ bench: LaunchBench) throws -> Inventory { try Inventory.read(at: bench.store) }

    /// Starts a request for the next client.
    private func request(_ bench: LaunchBench) throws -> ActivationRule {
        guard case .request(let rule) = ActivationRule.start(try inventory(bench), showing: nil) else {
            throw UpdateFailure(.internal, subject: "request", "No request was started.")
        }
        return rule
    }

    @Test func `asks for the next client and waits until it confirms its start`() async throws {
        let bench = try await bench()
        let rule = try request(bench)
        #expect(try rule.client == Sample.name("1.1.0"))
        #expect(rule.delay(try inventory(bench)).contains("is not shown yet"))
        let launched = try bench.launch()
        #expect(try rule.ending(inventory(bench)) == nil)
        #expect(rule.delay(try inventory(bench)).contains("has not confirmed its start"))
        _ = try bench.verdicts().confirm(launched.name, launched.token)
        #expect(try rule.ending(inventory(bench)) == .confirmed)
    }

    @Test func `reports a failed start with the words of the page`() async throws {
        let bench = try await bench()
        let rule = try request(bench)
        _ = try bench.launchAndFail()
        guard case .rolledBack(let failure)? = rule.ending(try inventory(bench)) else {
            Issue.record("the failure is not reported")
            return
        }
        #expect(failure.detail == "white")
        // A second request starts from here, so it does not report the first failure.
        _ = try bench.launchAndConfirm()
        let again = try request(bench)
        #expect(try again.ending(inventory(bench)) == nil)
        _ = try bench.launchAndFail()
        #expect(try again.ending(inventory(bench)) != nil)
    }

    @Test func `waits for the second trial after an interrupted start`() async throws {
        let bench = try await bench()
        let rule = try request(bench)
        _ = try bench.launch()
        // The next shell finds a trial without a verdict.
        #expect(try bench.launchAndConfirm() == Sample.name("1.0.0"))
        #expect(try rule.ending(inventory(bench)) == nil)
        #expect(try bench.launchAndConfirm() == Sample.name("1.1.0"))
        #expect(try rule.ending(inventory(bench)) == .confirmed)
    }

    @Test func `reports the second interruption because it blocks the client`() async throws {
        let bench = try await bench()
        let rule = try request(bench)
        for _ in 0..<2 {
            _ = try bench.launch()
            _ = try bench.launchAndConfirm()
        }
        guard case .rolledBack(let failure)? = rule.ending(try inventory(bench)) else {
            Issue.record("the failure is not reported")
            return
        }
        #expect(failure.cause == .interrupted)
    }

    @Test func `starts no request if nothing can be shown`() async throws {
        let bench = try await LaunchBench(installing: "1.0.0")
        let (old, new) = (try Sample.name("1.0.0"), try Sample.name("1.1.0"))
        _ = try bench.launchAndConfirm()
        let runs = "\(old) runs already, and no other client is ready"
        #expect(try ActivationRule.start(inventory(bench), showing: nil) == .ended(old, .nothingReady(runs)))
        #expect(try ActivationRule.start(inventory(bench), showing: old) == .ended(old, .confirmed))
        #expect(
            try ActivationRule.start(inventory(bench), showing: new)
                == .ended(new, .nothingReady("\(new) is not installed")))
        try await bench.install("1.1.0")
        try await bench.install("1.2.0")
        #expect(
            try ActivationRule.start(inventory(bench), showing: new)
                == .ended(new, .nothingReady("\(try Sample.name("1.2.0")) is next, not \(new)")))
    }

    @Test func `reports a client that an operator blocked`() async throws {
        let bench = try await bench()
        let new = try Sample.name("1.1.0")
        let rule = try request(bench)
        _ = try bench.verdicts().rollBack(to: nil, of: new)
        guard case .blocked? = rule.ending(try inventory(bench)) else {
            Issue.record("a running request does not report the block")
            return
        }
        guard case .ended(new, .blocked) = ActivationRule.start(try inventory(bench), showing: new) else {
            Issue.record("a new request does not report the block")
            return
        }
    }
}
