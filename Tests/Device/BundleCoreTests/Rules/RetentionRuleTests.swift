import BundleSigning
import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

struct RetentionRuleTests {
    @Test(
        arguments: [
            (["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "1.3.0", "1.2.0", 3, ["1.1.0", "1.2.0", "1.3.0"]),
            (["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "1.3.0", "1.2.0", 1, ["1.2.0", "1.3.0"]),
            (["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "1.1.0", "1.0.0", 1, ["1.0.0", "1.1.0", "1.3.0"]),
            (["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "1.1.0", "1.0.0", 3, ["1.0.0", "1.1.0", "1.3.0"]),
            (["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "embedded", nil, 1, ["1.3.0"]),
            (["1.0.0", "1.1.0"], "1.1.0", "embedded", 5, ["1.0.0", "1.1.0"]),
            (["1.9.0", "1.10.0"], "embedded", nil, 1, ["1.10.0"]),
            ([], "embedded", nil, 3, []),
        ] as [([String], String, String?, Int, [String])])
    func `keeps the current, the previous and the newest client, then the next newest up to the limit`(
        versions: [String], current: String, previous: String?, keep: Int, retained: [String]
    ) throws {
        let plan = RetentionRule.plan(
            try Sample.inventory(versions, current: current, previous: previous), keep: keep)
        #expect(plan.retained.map(\.shortDescription) == retained)
        #expect(plan.removed.map(\.shortDescription) == versions.filter { !retained.contains($0) })
    }

    @Test func `names every role of a client`() throws {
        var ledger = try Sample.inventory(["1.0.0", "1.1.0", "1.2.0"], current: "1.1.0", previous: "1.0.0").ledger
        ledger.lastKnownGood = try Sample.name("1.1.0")
        #expect(ledger.roles(of: try Sample.name("1.0.0")) == ["previous"])
        #expect(ledger.roles(of: try Sample.name("1.1.0")) == ["current", "last known good"])
        #expect(ledger.roles(of: try Sample.name("1.2.0")) == [])
    }

    @Test func `keeps three clients by default`() {
        #expect(RetentionRule.defaultKeep == 3)
    }

    @Test func `never removes a protected client and keeps no more than asked for, in random stores`() throws {
        var generator = SeededGenerator(seed: 0x5EED)
        for _ in 0..<2000 {
            let versions = (0..<Int.random(in: 0...9, using: &generator)).map { "1.\($0).0" }
                .filter { _ in Int.random(in: 0..<4, using: &generator) > 0 }
            let current = versions.randomElement(using: &generator) ?? "embedded"
            let previous = Bool.random(using: &generator) ? versions.randomElement(using: &generator) : nil
            let keep = Int.random(in: 1...7, using: &generator)
            let inventory = try Sample.inventory(
                versions.shuffled(using: &generator), current: Bool.random(using: &generator) ? current : "embedded",
                previous: previous)
            let plan = RetentionRule.plan(inventory, keep: keep)

            let all = inventory.bundles.compactMap(\.version.semantic)
            let retained = plan.retained.compactMap { $0.version?.semantic }
            let removed = plan.removed.compactMap { $0.version?.semantic }
            let names = [inventory.ledger.current, inventory.ledger.previous].compactMap { $0?.version?.semantic }
            let protected = Set(names + all.suffix(1))
            #expect((retained + removed).sorted() == all)
            #expect(retained == retained.sorted())
            #expect(removed == removed.sorted())
            #expect(protected.isSubset(of: retained))
            #expect(retained.count <= max(keep, protected.count))
            // Nothing is removed below the limit, and every removed client is older than the unprotected ones that
            // stay.
            #expect(removed.isEmpty || retained.count >= keep)
            let filled = retained.filter { !protected.contains($0) }
            if let newestGone = removed.last, let oldestFilled = filled.first {
                #expect(newestGone < oldestFilled)
            }
        }
    }

    /// 1.0.0 to 1.5.0 are installed, and 1.1.0 has a role.
    @Test(
        arguments: [
            ("current", [], 1, ["1.1.0", "1.5.0"]), ("previous", [], 1, ["1.1.0", "1.5.0"]),
            ("pending", [], 1, ["1.1.0", "1.5.0"]), ("lastKnownGood", [], 1, ["1.1.0", "1.5.0"]),
            ("launch", [], 1, ["1.1.0", "1.5.0"]), ("launch", [], 3, ["1.1.0", "1.4.0", "1.5.0"]),
            // The newest usable client stays, and blocked ones are the last to fill up. A role protects a blocked
            // client.
            ("launch", ["1.5.0"], 1, ["1.1.0", "1.4.0"]),
            ("launch", ["1.5.0", "1.4.0"], 3, ["1.1.0", "1.2.0", "1.3.0"]),
            ("launch", ["1.1.0", "1.5.0"], 2, ["1.1.0", "1.4.0"]),
            ("launch", ["1.5.0", "1.4.0", "1.3.0", "1.2.0", "1.0.0"], 2, ["1.1.0", "1.5.0"]),
            ("none", ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"], 1, ["1.5.0"]),
        ] as [(String, [String], Int, [String])])
    func `keeps clients with a role and removes blocked clients first`(
        role: String, blocked: [String], keep: Int, retained: [String]
    ) throws {
        let versions = (0...5).map { "1.\($0).0" }
        var ledger = try Sample.inventory(try versions.map { try Sample.entry($0) }, blocked: blocked).ledger
        let name = try Sample.name("1.1.0")
        switch role {
        case "current": ledger.current = name
        case "previous": ledger.previous = name
        case "pending": ledger.pending = name
        case "lastKnownGood": ledger.lastKnownGood = name
        case "launch":
            ledger.launch = Launch(
                name: name, tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true, verdict: nil)
        default: break
        }
        let plan = RetentionRule.plan(try Sample.inventory(ledger), keep: keep)
        #expect(plan.retained.map(\.shortDescription) == retained)
    }
}
