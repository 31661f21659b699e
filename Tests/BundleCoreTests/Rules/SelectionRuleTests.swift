import Testing

@testable import BundleCore

struct SelectionRuleTests {
    /// 1.0.0 for every shell from 1, 2.0.0 for 1 to 2, 3.0.0 from 3.
    private static func inventory(blocked: [String]) throws -> Inventory {
        try Sample.inventory(
            [
                try Sample.entry("3.0.0", minimumShell: "3.0.0"), try Sample.entry("1.0.0"),
                try Sample.entry("2.0.0", maximumShell: "2.0.0"),
            ], current: "1.0.0", blocked: blocked)
    }

    @Test(arguments: [
        ("0.9.0", [], "embedded"), ("1.0.0", [], "v2.0.0"), ("2.0.0", [], "v2.0.0"), ("2.0.1", [], "v1.0.0"),
        ("3.0.0", [], "v3.0.0"), ("3.0.0", ["3.0.0"], "v1.0.0"), ("3.0.0", ["3.0.0", "1.0.0"], "embedded"),
        ("1.0.0", ["1.0.0"], "v2.0.0"), ("1.0.0", ["2.0.0"], "v1.0.0"), ("3.0.0", ["9.9.9"], "v3.0.0"),
    ])
    func `the newest client that is compatible and not blocked runs, else the seed`(
        shell: String, blocked: [String], chosen: String
    ) throws {
        let inventory = try Self.inventory(blocked: blocked)
        let shell = try Sample.version(shell)
        #expect(SelectionRule.select(inventory, shell: shell)?.name.description == chosen)
        #expect((SelectionRule.newestUsable(inventory, shell: shell)?.name.description ?? "embedded") == chosen)
    }

    @Test func `versions are ordered by precedence, not as text`() throws {
        let inventory = try Sample.inventory(["1.9.0", "1.10.0", "1.10.0-rc.1"])
        #expect(SelectionRule.select(inventory, shell: try Sample.version("1.0.0"))?.name.description == "v1.10.0")
    }

    @Test func `a block is named before an unfit shell`() throws {
        let inventory = try Self.inventory(blocked: ["3.0.0"])
        let bundle = try #require(inventory.bundles.last)
        func usability(_ shell: String, _ ledger: Ledger) throws -> SelectionRule.Usability {
            SelectionRule.usability(of: bundle, ledger: ledger, shell: try Sample.version(shell))
        }
        #expect(try usability("1.0.0", inventory.ledger) == .blocked(try Sample.block("3.0.0")))
        #expect(try usability("1.0.0", Ledger()) == .incompatible(.shellTooOld(minimum: try Sample.version("3.0.0"))))
        #expect(try usability("3.0.0", Ledger()) == .usable)
    }
}
