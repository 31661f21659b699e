import BundleTesting
import Testing

@testable import BundleCore

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
    func `the current, the previous and the newest stay, then the next newest up to N`(
        versions: [String], current: String, previous: String?, keep: Int, retained: [String]
    ) throws {
        let plan = RetentionRule.plan(
            try Sample.inventory(versions, current: current, previous: previous), keep: keep)
        #expect(plan.retained.map(\.description) == retained)
        #expect(plan.removed.map(\.description) == versions.filter { !retained.contains($0) })
    }

    @Test func `three clients stay unless told otherwise`() {
        #expect(RetentionRule.defaultKeep == 3)
    }

    @Test func `whatever the store holds, nothing protected goes and no more stay than asked for`() throws {
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

            let all = inventory.bundles.map(\.version)
            let protected = Set(
                [inventory.ledger.current.version, inventory.ledger.previous?.version, all.last].compactMap(\.self))
            #expect((plan.retained + plan.removed).sorted() == all)
            #expect(plan.retained == plan.retained.sorted())
            #expect(plan.removed == plan.removed.sorted())
            #expect(protected.isSubset(of: plan.retained))
            #expect(plan.retained.count <= max(keep, protected.count))
            // Nothing goes while there is room, and what goes is older than everything that stays unprotected.
            #expect(plan.removed.isEmpty || plan.retained.count >= keep)
            let filled = plan.retained.filter { !protected.contains($0) }
            if let newestGone = plan.removed.last, let oldestFilled = filled.first {
                #expect(newestGone < oldestFilled)
            }
        }
    }
}
