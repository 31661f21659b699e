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
    func `the newest client that is compatible and not blocked runs, else the seed`(
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
    func `the shell is too old where a better client than the one that runs needs another`(
        shell: String, blocked: [String], needed: String?
    ) throws {
        let inventory = try Self.inventory(blocked: blocked)
        #expect(SelectionRule.missingShell(inventory, shell: try Sample.version(shell))?.description == needed)
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

    // MARK: With launches

    /// What is known when 1.0.0, 1.1.0 and 1.2.0 are installed.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var launched: String?
        var verdict: Launch.Verdict?
        var good = "embedded"
        var failed: [String] = []
        var blocked: [String] = []
        var excluded: [String] = []
        var hasSeed = true
        /// What is chosen, and the first word of why.
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
            testDescription: "the next lower one has failed, too", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0", "1.1.0"], chosen: "v1.0.0", reason: "lower"),
        Case(
            testDescription: "all that are lower have failed", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0", "1.1.0", "1.0.0"], chosen: "embedded", reason: "fallback"),
        Case(
            testDescription: "a higher one is no way back", launched: "1.0.0", verdict: .faulty, failed: ["1.0.0"],
            chosen: "embedded", reason: "fallback"),
        Case(
            testDescription: "a failed launch, neither good client nor seed", launched: "1.2.0", verdict: .faulty,
            failed: ["1.2.0"], hasSeed: false, chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the good client is blocked", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            failed: ["1.2.0"], blocked: ["1.0.0"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the good client could not be made ready", launched: "1.2.0", verdict: .faulty,
            good: "1.0.0", excluded: ["1.0.0"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "neither could the seed", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            excluded: ["1.0.0", "embedded"], chosen: "v1.1.0", reason: "lower"),
        Case(
            testDescription: "the seed failed", launched: "embedded", verdict: .faulty, chosen: "v1.2.0",
            reason: "remaining"),
        Case(
            testDescription: "only what failed is left", launched: "1.2.0", verdict: .faulty, failed: ["1.2.0"],
            blocked: ["1.0.0", "1.1.0"], hasSeed: false, chosen: "v1.2.0", reason: "onlyOne"),
        Case(
            testDescription: "what failed is blocked too", launched: "1.2.0", verdict: .faulty,
            blocked: ["1.0.0", "1.1.0", "1.2.0"], hasSeed: false, chosen: nil, reason: ""),
        Case(
            testDescription: "what failed was left by hand", launched: "1.2.0", verdict: .faulty, good: "1.0.0",
            blocked: ["1.2.0"], chosen: "v1.1.0", reason: "newest"),
        Case(
            testDescription: "the lowest failed, and the others never ran", launched: "1.0.0", verdict: .faulty,
            failed: ["1.0.0"], hasSeed: false, chosen: "v1.2.0", reason: "remaining"),
        Case(
            testDescription: "the newest failed before what runs", launched: "1.0.0", good: "1.0.0", failed: ["1.2.0"],
            chosen: "v1.2.0", reason: "retry"),
        Case(
            testDescription: "the newest is blocked", launched: "1.0.0", good: "1.0.0", blocked: ["1.2.0"],
            chosen: "v1.1.0", reason: "newest"),
        Case(
            testDescription: "the newest cannot be made ready", excluded: ["1.2.0"], chosen: "v1.1.0", reason: "newest"),
        Case(
            testDescription: "nothing installed can", blocked: ["1.0.0", "1.1.0", "1.2.0"], chosen: "embedded",
            reason: "onlyOne"),
        Case(
            testDescription: "nothing can", blocked: ["1.0.0", "1.1.0"], excluded: ["1.2.0", "embedded"], chosen: nil,
            reason: ""),
    ])
    func `what ran last and how it ended decide what runs next`(example: Case) throws {
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

    @Test func `the reasons are told in words`() throws {
        let failure = StartFailure(.interrupted, detail: "", at: Timestamp(clamping: 0))
        let reasons: [SelectionRule.Reason] = [
            .newest, .hotCodePush, .retry(failure), .fallback(failed: try Sample.name("1.2.0")),
            .lower(failed: try Sample.name("1.2.0")), .remaining(failed: try Sample.name("1.2.0")), .onlyOne,
        ]
        #expect(
            reasons.map(\.description) == [
                "the newest usable client", "the last usable hot code push",
                "the newest usable client, once more: its start ended before it was confirmed",
                "the last known good client, because v1.2.0 failed",
                "the next lower client, because v1.2.0 failed",
                "the best client that is left, because v1.2.0 failed", "nothing else can run",
            ])
    }
}
