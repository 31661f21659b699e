import BundleSigning
import Testing

@testable import BundleCore
import BundleValues

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
    func `selects the newest compatible client that is not blocked, or else the seed`(
        shell: String, blocked: [String], chosen: String
    ) throws {
        let inventory = try Self.inventory(blocked: blocked)
        let shell: SemanticVersion = try Sample.version(shell)
        #expect(SelectionRule.select(inventory, shell: shell)?.name.description == chosen)
        #expect((SelectionRule.newestUsable(inventory, shell: shell)?.name.description ?? "embedded") == chosen)
    }

    @Test(
        arguments: [
            ("0.9.0", [], "3.0.0"), ("1.0.0", [], "3.0.0"), ("2.0.1", [], "3.0.0"), ("3.0.0", [], nil),
            ("1.0.0", ["3.0.0"], nil), ("0.9.0", ["3.0.0", "2.0.0"], "1.0.0"),
            ("0.9.0", ["3.0.0", "2.0.0", "1.0.0"], nil),
        ] as [(String, [String], String?)])
    func `reports the shell that a better client than the selected one needs`(
        shell: String, blocked: [String], needed: String?
    ) throws {
        let inventory = try Self.inventory(blocked: blocked)
        #expect(SelectionRule.missingShell(inventory, shell: try Sample.version(shell))?.description == needed)
    }

    @Test func `orders versions by precedence instead of text`() throws {
        let inventory = try Sample.inventory(["1.9.0", "1.10.0", "1.10.0-rc.1"])
        #expect(SelectionRule.select(inventory, shell: try Sample.version("1.0.0"))?.name.description == "v1.10.0")
    }

    @Test func `reports a block before an incompatible shell`() throws {
        let inventory = try Self.inventory(blocked: ["3.0.0"])
        let bundle = try #require(inventory.bundles.last)
        func usability(_ shell: String, _ ledger: Ledger) throws -> SelectionRule.Usability {
            SelectionRule.usability(of: bundle, ledger: ledger, shell: try Sample.version(shell))
        }
        #expect(try usability("1.0.0", inventory.ledger) == .blocked(try Sample.block("3.0.0")))
        #expect(try usability("1.0.0", Ledger()) == .incompatible(.shellTooOld(minimum: try Sample.version("3.0.0"))))
        #expect(try usability("3.0.0", Ledger()) == .usable)
    }

    // MARK: With launches

    /// A device with 1.0.0, 1.1.0 and 1.2.0.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var launched: String?
        var verdict: Launch.Verdict?
        var good = "embedded"
        var failed: [String] = []
        var blocked: [String] = []
        var excluded: [String] = []
        var hasSeed = true
        /// The chosen client and the kind of reason.
        let chosen: String?
        let reason: String
    }

    @Test(arguments: [
        Case(testDescription: "nothing was launched", chosen: "v1.2.0", reason: "newest"),
        Case(testDescription: "a launch without verdict", launched: "1.1.0", chosen: "v1.2.0", reason: "newest"),
        Case(
            testDescription: "a good launch", launched: "1.1.0", verdict: .good, good: "1.1.0", chosen: "v1.2.0",
            reason: "newest"),
        Case(
            testDescription: "a failed launch, a good client", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            failed: ["1.2.0"], chosen: "v1.0.0", reason: "fallback"),
        Case(
            testDescription: "a failed launch, no good client", launched: "1.2.0", verdict: .faulty, failed: ["1.2.0"],
            chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the next lower client failed too", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0", "1.1.0"], chosen: "v1.0.0", reason: "lower"),
        Case(
            testDescription: "all lower clients failed", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0", "1.1.0", "1.0.0"], chosen: "embedded", reason: "fallback"),
        Case(
            testDescription: "a higher client is not a fallback", launched: "1.0.0", verdict: .faulty,
            failed: ["1.0.0"],
            chosen: "embedded", reason: "fallback"),
        Case(
            testDescription: "a failed launch, no good client and no seed", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0"], hasSeed: false, chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the good client is blocked", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            failed: ["1.2.0"], blocked: ["1.0.0"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the good client could not be prepared", launched: "1.2.0", verdict: .faulty,
            good: "1.0.0", excluded: ["1.0.0"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "neither the good client nor the seed could be prepared", launched: "1.2.0",
            verdict: .faulty, good: "1.0.0",
            excluded: ["1.0.0", "embedded"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the seed failed", launched: "embedded", verdict: .faulty, chosen: "v1.2.0",
            reason: "remaining"),
        Case(
            testDescription: "only the failed client is left", launched: "1.2.0", verdict: .faulty, failed: ["1.2.0"],
            blocked: ["1.0.0", "1.1.0"], hasSeed: false, chosen: "v1.2.0", reason: "onlyOne"),
        Case(
            testDescription: "the failed client is blocked too", launched: "1.2.0", verdict: .faulty,
            blocked: ["1.0.0", "1.1.0", "1.2.0"], hasSeed: false, chosen: nil, reason: ""),
        Case(
            testDescription: "an operator left the failed client", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            blocked: ["1.2.0"], chosen: "v1.1.0", reason: "newest"),
        Case(
            testDescription: "the lowest client failed, and the others never ran", launched: "1.0.0", verdict: .faulty,
            failed: ["1.0.0"], hasSeed: false, chosen: "v1.2.0", reason: "remaining"),
        Case(
            testDescription: "the newest client failed before the current one", launched: "1.0.0", good: "1.0.0",
            failed: ["1.2.0"],
            chosen: "v1.2.0", reason: "retry"),
        Case(
            testDescription: "the newest client is blocked", launched: "1.0.0", good: "1.0.0", blocked: ["1.2.0"],
            chosen: "v1.1.0", reason: "newest"),
        Case(
            testDescription: "the newest client cannot be prepared", excluded: ["1.2.0"], chosen: "v1.1.0",
            reason: "newest"),
        Case(
            testDescription: "no installed client can run", blocked: ["1.0.0", "1.1.0", "1.2.0"], chosen: "embedded",
            reason: "onlyOne"),
        Case(
            testDescription: "no client can run", blocked: ["1.0.0", "1.1.0"], excluded: ["1.2.0", "embedded"],
            chosen: nil,
            reason: ""),
    ])
    func `selects the next client by the last launch and its verdict`(example: Case) throws {
        var ledger = try Sample.inventory(
            try ["1.0.0", "1.1.0", "1.2.0"].map { try Sample.entry($0) }, blocked: example.blocked
        ).ledger
        ledger.lastKnownGood = try Sample.name(example.good)
        ledger.records = try example.failed.map {
            StartRecord(
                version: try Sample.version($0), goodSince: nil,
                failures: [StartFailure(.reported, detail: "", at: Timestamp(clamping: 1))])
        }
        ledger.launch = try example.launched.map {
            Launch(
                name: try Sample.name($0), tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true,
                verdict: example.verdict)
        }
        let choice = SelectionRule.select(
            try Sample.inventory(ledger), shell: try Sample.version("1.0.0"), hasSeed: example.hasSeed,
            excluding: Set(try example.excluded.map(Sample.name)))
        #expect(choice?.name.description == example.chosen)
        let word =
            switch choice?.reason {
            case .newest: "newest"
            case .hotCodePush: "hotCodePush"
            case .retry: "retry"
            case .fallback(let failed): failed == ledger.launch?.name ? "fallback" : "fallback from another"
            case .lower(let failed): failed == ledger.launch?.name ? "lower" : "lower than another"
            case .remaining(let failed): failed == ledger.launch?.name ? "remaining" : "remaining after another"
            case .onlyOne: "onlyOne"
            case nil: ""
            }
        #expect(word == example.reason)
    }

    @Test func `describes every reason in words`() throws {
        let failure = StartFailure(.interrupted, detail: "", at: Timestamp(clamping: 0))
        let reasons: [SelectionRule.Reason] = [
            .newest, .hotCodePush, .retry(failure), .fallback(failed: try Sample.name("1.2.0")),
            .lower(failed: try Sample.name("1.2.0")), .remaining(failed: try Sample.name("1.2.0")), .onlyOne,
        ]
        #expect(
            reasons.map(\.description) == [
                "the newest usable client", "the last usable hot code push",
                "a second trial of the newest usable client: its start ended before it was confirmed",
                "the last known good client, because v1.2.0 failed",
                "the next lower client, because v1.2.0 failed",
                "the best client that is left, because v1.2.0 failed", "nothing else can run",
            ])
    }
}
