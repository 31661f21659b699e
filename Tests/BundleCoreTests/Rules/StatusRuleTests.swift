import Testing

@testable import BundleCore

struct StatusRuleTests {
    private static func rows(_ shell: String?, blocked: [String] = ["4.0.0"]) throws -> [String] {
        let inventory = try Sample.inventory(
            [
                try Sample.entry("1.0.0"), try Sample.entry("2.0.0", maximumShell: "2.0.0"),
                try Sample.entry("3.0.0", minimumShell: "3.0.0"), try Sample.entry("4.0.0"),
            ], blocked: blocked)
        return StatusRule.rows(inventory, shell: try shell.map(Sample.version)).map {
            "\($0.runs ? "*" : "-") \($0.name): \($0.reason)"
        }
    }

    @Test func `each client says why it runs or why not`() throws {
        #expect(
            try Self.rows("2.0.0") == [
                "- embedded: the shell's own client; v2.0.0 runs", "- v1.0.0: usable, but v2.0.0 runs",
                "* v2.0.0: the newest usable client", "- v3.0.0: needs shell 3.0.0 or newer",
                "- v4.0.0: blocked since 2020-09-13T12:26:40Z: it crashed",
            ])
        #expect(
            try Self.rows("2.5.0").dropFirst() == [
                "* v1.0.0: the newest usable client", "- v2.0.0: is for shells up to 2.0.0",
                "- v3.0.0: needs shell 3.0.0 or newer", "- v4.0.0: blocked since 2020-09-13T12:26:40Z: it crashed",
            ])
    }

    @Test func `the seed runs where nothing installed is usable`() throws {
        let rows = try Self.rows("0.1.0")
        #expect(rows.first == "* embedded: no installed client is usable")
        #expect(rows.dropFirst().allSatisfy { $0.hasPrefix("-") })
        #expect(
            StatusRule.rows(try Sample.inventory([Ledger.Entry]()), shell: nil)
                == [
                    StatusRule.Row(
                        name: .embedded, runs: true, state: "seed", reason: "no installed client is usable",
                        failures: [])
                ])
    }

    @Test func `a shell that is not named meets every range, but lifts no block`() throws {
        #expect(try Self.rows(nil)[3] == "* v3.0.0: the newest usable client")
        #expect(try Self.rows(nil)[4].hasPrefix("- v4.0.0: blocked"))
    }

    @Test(arguments: ["0.1.0", "1.0.0", "2.0.0", "2.5.0", "3.0.0"])
    func `the client that runs is the one that is selected`(shell: String) throws {
        let inventory = try Sample.inventory([
            try Sample.entry("1.0.0"), try Sample.entry("2.0.0", maximumShell: "2.0.0"),
            try Sample.entry("3.0.0", minimumShell: "3.0.0"),
        ])
        let shell = try Sample.version(shell)
        let running = StatusRule.rows(inventory, shell: shell).filter(\.runs).map(\.name)
        #expect(running == [SelectionRule.select(inventory, shell: shell)?.name])
    }
}
