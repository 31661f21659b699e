import BundleSigning
import Testing

@testable import BundleCore
import BundleValues

struct StatusRuleTests {
    private static func rows(_ shell: String?, blocked: [String] = ["4.0.0"]) throws -> [String] {
        let inventory = try Sample.inventory(
            [
                try Sample.entry("1.0.0"), try Sample.entry("2.0.0", maximumShell: "2.0.0"),
                try Sample.entry("3.0.0", minimumShell: "3.0.0"), try Sample.entry("4.0.0"),
            ], blocked: blocked)
        return StatusRule.rows(inventory, shell: try shell.map(Sample.version)).map {
            "\($0.isNext ? "*" : "-") \($0.name): \($0.reason)"
        }
    }

    @Test func `explains for each client why it is next or not`() throws {
        #expect(
            try Self.rows("2.0.0") == [
                "- embedded: the seed; v2.0.0 is next", "- v1.0.0: usable, but v2.0.0 is next",
                "* v2.0.0: the newest usable client", "- v3.0.0: needs shell 3.0.0 or newer",
                "- v4.0.0: blocked since 2020-09-13T12:26:40Z: it crashed",
            ])
        #expect(
            try Self.rows("2.5.0").dropFirst() == [
                "* v1.0.0: the newest usable client", "- v2.0.0: is for shells up to 2.0.0",
                "- v3.0.0: needs shell 3.0.0 or newer", "- v4.0.0: blocked since 2020-09-13T12:26:40Z: it crashed",
            ])
    }

    @Test func `the seed is next if no installed client is usable`() throws {
        let rows = try Self.rows("0.1.0")
        #expect(rows.first == "* embedded: the seed; no installed client is usable")
        #expect(rows.dropFirst().allSatisfy { $0.hasPrefix("-") })
        #expect(
            StatusRule.rows(try Sample.inventory([Ledger.Entry]()), shell: nil)
                == [
                    StatusRule.Row(
                        name: .embedded, isNext: true, state: "seed", reason: "the seed; no client is installed yet",
                        failures: [])
                ])
    }

    @Test func `a missing shell version meets every range but lifts no block`() throws {
        #expect(try Self.rows(nil)[3] == "* v3.0.0: the newest usable client")
        #expect(try Self.rows(nil)[4].hasPrefix("- v4.0.0: blocked"))
    }

    @Test(arguments: ["0.1.0", "1.0.0", "2.0.0", "2.5.0", "3.0.0"])
    func `marks the selected client as next`(shell: String) throws {
        let inventory = try Sample.inventory([
            try Sample.entry("1.0.0"), try Sample.entry("2.0.0", maximumShell: "2.0.0"),
            try Sample.entry("3.0.0", minimumShell: "3.0.0"),
        ])
        let shell: SemanticVersion = try Sample.version(shell)
        let running = StatusRule.rows(inventory, shell: shell).filter(\.isNext).map(\.name)
        #expect(running == [SelectionRule.select(inventory, shell: shell)?.name])
    }

    // MARK: With launches

    private static func failed(_ version: String, _ times: Int) throws -> StartRecord {
        let failure = StartFailure(.reported, detail: "white", at: Timestamp(clamping: 0))
        return StartRecord(
            version: try Sample.version(version), goodSince: nil, failures: Array(repeating: failure, count: times))
    }

    @Test func `returns the state and the failures of each client`() throws {
        var ledger = try Sample.inventory(
            ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"].map { try Sample.entry($0) }, blocked: ["1.3.0"]
        ).ledger
        ledger.records = [
            StartRecord(version: try Sample.version("1.0.0"), goodSince: Timestamp(clamping: 9), failures: []),
            try Self.failed("1.1.0", 1), try Self.failed("1.2.0", 1), try Self.failed("1.3.0", 2),
        ]
        ledger.launch = Launch(
            name: try Sample.name("1.2.0"), tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true,
            verdict: nil)
        func states(_ ledger: Ledger) throws -> [String] {
            StatusRule.rows(try Sample.inventory(ledger), shell: nil).map { "\($0.state) \($0.failures.count)" }
        }
        #expect(try states(ledger) == ["seed 0", "good 0", "failed 1", "trial 1", "blocked 2", "staged 0"])
        ledger.launch?.verdict = .faulty
        #expect(try states(ledger)[3] == "failed 1")
        ledger.launch?.verdict = nil
        ledger.launch?.isTrial = false
        #expect(try states(ledger)[3] == "failed 1")
        let reasons = StatusRule.rows(try Sample.inventory(ledger), shell: nil).map(\.reason)
        #expect(reasons[1] == "usable, but v1.4.0 is next")
        #expect(
            reasons[2]
                == "failed once, and is tried once more with the next check or the next start of the shell: its start "
                + "was reported as failed: white")
    }

    @Test func `explains why a newer client is not next after a failure`() throws {
        var ledger = try Sample.inventory(["1.0.0", "1.1.0", "1.2.0"].map { try Sample.entry($0) }).ledger
        ledger.records = [try Self.failed("1.1.0", 1)]
        ledger.lastKnownGood = try Sample.name("1.0.0")
        ledger.launch = Launch(
            name: try Sample.name("1.1.0"), tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true,
            verdict: .faulty)
        let reasons = StatusRule.rows(try Sample.inventory(ledger), shell: nil).map(\.reason)
        #expect(
            reasons[3] == "usable, but v1.0.0 is next: the last known good client, because v1.1.0 failed")
    }

    @Test(arguments: ["1.1.0", "meteor-b"])
    func `names the time of the second trial of the next client`(version: String) throws {
        var ledger = try Sample.inventory([try Sample.entry("1.0.0"), try Sample.entry(version)]).ledger
        let failure = StartFailure(
            .notConfirmed, detail: "white", at: Timestamp(clamping: 60), retryAt: Timestamp(clamping: 960))
        ledger.records = [StartRecord(version: try Sample.version(version), goodSince: nil, failures: [failure])]
        let row = try #require(StatusRule.rows(try Sample.inventory(ledger), shell: nil).last)
        #expect(row.isNext && row.state == "failed")
        #expect(
            row.reason
                == "failed once, and is tried once more with a check after 1970-01-01T00:16:00Z or the next "
                + "start of the shell: its start was not confirmed in time: white")
    }

    @Test func `explains the seed as fallback, and a device on which no client can run`() throws {
        var ledger = try Sample.inventory([try Sample.entry("1.0.0")]).ledger
        ledger.launch = Launch(
            name: try Sample.name("1.0.0"), tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true,
            verdict: .faulty)
        ledger.records = [try Self.failed("1.0.0", 1)]
        let rows = StatusRule.rows(try Sample.inventory(ledger), shell: nil)
        #expect(rows.first?.isNext == true)
        #expect(rows.first?.reason == "the last known good client, because v1.0.0 failed")
        ledger.block(try Sample.block("1.0.0"))
        let none = StatusRule.rows(try Sample.inventory(ledger), shell: nil, hasSeed: false)
        #expect(none.map(\.name.description) == ["v1.0.0"])
        #expect(none.map(\.isNext) == [false])
        ledger.blocks = []
        let only = StatusRule.rows(try Sample.inventory(ledger), shell: nil, hasSeed: false)
        #expect(only.map(\.reason) == ["nothing else can run"])
    }
}
