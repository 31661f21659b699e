import BundleSigning
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests the rules that choose, keep and explain clients, with clients of both sources.
struct SourceRulesTests {
    /// A device with archives 1.0.0 and 1.1.0, and the pushes a and b. b needs seed 1.
    struct Device: Sendable {
        var order = "meteor,archive"
        var offered: String? = "meteor-b"
        var blocked: [String] = []
        var seed: String? = "1"

        func inventory() throws -> Inventory {
            var ledger = Ledger()
            for version in ["1.0.0", "1.1.0", "meteor-a"] { ledger.record(try Sample.entry(version)) }
            ledger.record(try Sample.entry("meteor-b", seed: "1"))
            for version in blocked { ledger.block(try Sample.block(version)) }
            ledger.offered = try offered.map(Sample.name)
            ledger.seed = try seed.map(Sample.seed)
            ledger.sources = try #require(SourceOrder(order.split(separator: ",").map(String.init)))
            return try Sample.inventory(ledger)
        }
    }

    /// A device, its ranking, the chosen client and the reason.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var device = Device()
        let ranking: [String]
        let chosen: String
        let reason: SelectionRule.Reason
    }

    private static let pushesFirst = ["meteor-b", "meteor-a", "v1.1.0", "v1.0.0"]
    private static let archivesFirst = ["v1.1.0", "v1.0.0", "meteor-b", "meteor-a"]

    static let cases = [
        Case(
            testDescription: "pushes first", ranking: pushesFirst, chosen: "meteor-b", reason: .hotCodePush),
        Case(
            testDescription: "archives first", device: Device(order: "archive,meteor"), ranking: archivesFirst,
            chosen: "v1.1.0", reason: .newest),
        Case(
            testDescription: "the server offers an older push", device: Device(offered: "meteor-a"),
            ranking: ["meteor-a", "meteor-b", "v1.1.0", "v1.0.0"], chosen: "meteor-a", reason: .hotCodePush),
        Case(
            testDescription: "nothing was offered", device: Device(offered: nil), ranking: pushesFirst,
            chosen: "meteor-b", reason: .hotCodePush),
        Case(
            testDescription: "the seed's version is offered", device: Device(offered: "embedded"),
            ranking: ["v1.1.0", "v1.0.0"], chosen: "v1.1.0", reason: .newest),
        Case(
            testDescription: "the seed's version is offered, and there are no archives",
            device: Device(order: "meteor", offered: "embedded"), ranking: [], chosen: "embedded", reason: .onlyOne),
        Case(
            testDescription: "the seed's version is offered to a device that prefers archives",
            device: Device(order: "archive,meteor", offered: "embedded", blocked: ["1.0.0", "1.1.0"]),
            ranking: ["v1.1.0", "v1.0.0"], chosen: "embedded", reason: .onlyOne),
        Case(
            testDescription: "the push is blocked", device: Device(blocked: ["meteor-b"]), ranking: pushesFirst,
            chosen: "meteor-a", reason: .hotCodePush),
        Case(
            testDescription: "every push is blocked", device: Device(blocked: ["meteor-b", "meteor-a"]),
            ranking: pushesFirst, chosen: "v1.1.0", reason: .newest),
        Case(
            testDescription: "every archive is blocked",
            device: Device(order: "archive,meteor", blocked: ["1.0.0", "1.1.0"]), ranking: archivesFirst,
            chosen: "meteor-b", reason: .hotCodePush),
        Case(
            testDescription: "everything is blocked",
            device: Device(blocked: ["1.0.0", "1.1.0", "meteor-b", "meteor-a"]),
            ranking: pushesFirst, chosen: "embedded", reason: .onlyOne),
        Case(
            testDescription: "the push needs another seed", device: Device(seed: "2"), ranking: pushesFirst,
            chosen: "meteor-a", reason: .hotCodePush),
        Case(
            testDescription: "the seed is unknown", device: Device(seed: nil), ranking: pushesFirst,
            chosen: "meteor-b", reason: .hotCodePush),
        Case(
            testDescription: "archives are disabled", device: Device(order: "meteor"),
            ranking: ["meteor-b", "meteor-a"], chosen: "meteor-b", reason: .hotCodePush),
        Case(
            testDescription: "pushes are disabled", device: Device(order: "archive"),
            ranking: ["v1.1.0", "v1.0.0"], chosen: "v1.1.0", reason: .newest),
    ]

    @Test(arguments: cases) func `ranks clients by the order of the sources, then by the source's own order`(
        _ example: Case
    ) throws {
        let inventory = try example.device.inventory()
        #expect(SelectionRule.ranking(inventory).map(\.name.description) == example.ranking)
        let choice = SelectionRule.select(inventory, shell: try Sample.version("1.0.0"))
        #expect(choice?.name.description == example.chosen)
        #expect(choice?.reason == example.reason)
        #expect(SelectionRule.newestUsable(inventory, shell: try Sample.version("1.0.0"))?.version.source != .meteor)
    }

    /// The push b failed; `good` was good before.
    @Test(arguments: [
        ("v1.0.0", "meteor-b", "v1.0.0"), ("meteor-a", "meteor-b", "meteor-a"), ("embedded", "meteor-b", "embedded"),
        // The present offer does not matter.
        ("meteor-a", "embedded", "meteor-a"),
    ])
    func `falls back from a failed push to the last confirmed client of any source`(
        good: String, offered: String, chosen: String
    ) throws {
        var ledger = try Device(offered: offered).inventory().ledger
        let failed = try Sample.name("meteor-b")
        ledger.lastKnownGood = try #require(ClientName(good))
        ledger.launch = Launch(
            name: failed, tokenSha256: try .of([]), at: Timestamp(clamping: 1), isTrial: true, verdict: .faulty)
        let choice = SelectionRule.select(try Sample.inventory(ledger), shell: nil)
        #expect(
            choice == SelectionRule.Choice(name: try #require(ClientName(chosen)), reason: .fallback(failed: failed)))
    }

    @Test func `retries a failed push before it chooses an archive`() throws {
        var ledger = try Device().inventory().ledger
        let failure = StartFailure(.reported, detail: "", at: Timestamp(clamping: 1))
        ledger.records = [StartRecord(version: try Sample.version("meteor-b"), goodSince: nil, failures: [failure])]
        let choice = SelectionRule.select(try Sample.inventory(ledger), shell: nil)
        #expect(choice == SelectionRule.Choice(name: try Sample.name("meteor-b"), reason: .retry(failure)))
    }

    // MARK: Keeping

    /// Archives of the seconds 10 and 40, pushes a to d of the seconds 20, 30, 50 and 60.
    private static func plan(
        keep: Int, blocked: [String] = [], current: String = "embedded", seed: String? = nil,
        offered: String? = nil
    ) throws -> [String] {
        let entries = [
            try Sample.entry("1.0.0", installedAt: 10), try Sample.entry("1.1.0", installedAt: 40),
            try Sample.entry("meteor-a", installedAt: 20), try Sample.entry("meteor-b", installedAt: 30),
            try Sample.entry("meteor-c", seed: "1", installedAt: 50), try Sample.entry("meteor-d", installedAt: 60),
        ]
        var ledger = try Sample.inventory(entries, current: current, blocked: blocked).ledger
        ledger.seed = try seed.map(Sample.seed)
        if let offered { ledger.offered = try Sample.name(offered) }
        let plan = RetentionRule.plan(try Sample.inventory(ledger), keep: keep)
        #expect(Set(plan.retained).isDisjoint(with: plan.removed))
        #expect(plan.retained.count + plan.removed.count == entries.count)
        return plan.retained.map(\.description)
    }

    @Test(arguments: [
        (1, ["v1.1.0", "meteor-d"]), (2, ["v1.1.0", "meteor-d"]), (3, ["v1.1.0", "meteor-c", "meteor-d"]),
        (4, ["v1.1.0", "meteor-b", "meteor-c", "meteor-d"]),
        (5, ["v1.1.0", "meteor-a", "meteor-b", "meteor-c", "meteor-d"]),
        (6, ["v1.0.0", "v1.1.0", "meteor-a", "meteor-b", "meteor-c", "meteor-d"]),
    ])
    func `keeps the newest client of each source, then the latest installations`(keep: Int, retained: [String]) throws {
        #expect(try Self.plan(keep: keep) == retained)
    }

    @Test func `removes clients that cannot run first, and keeps those with a role`() throws {
        #expect(try Self.plan(keep: 1, blocked: ["meteor-d"]) == ["v1.1.0", "meteor-c"])
        #expect(try Self.plan(keep: 1, blocked: ["meteor-d"], seed: "2") == ["v1.1.0", "meteor-b"])
        #expect(try Self.plan(keep: 3, seed: "2") == ["v1.1.0", "meteor-b", "meteor-d"])
        #expect(try Self.plan(keep: 1, current: "meteor-a") == ["v1.1.0", "meteor-a", "meteor-d"])
        #expect(try Self.plan(keep: 1, blocked: ["1.1.0", "1.0.0"]) == ["meteor-d"])
    }

    @Test func `keeps the push that a server returned to, although newer ones were installed after it`() throws {
        #expect(try Self.plan(keep: 1, offered: "meteor-a") == ["v1.1.0", "meteor-a"])
        #expect(try Self.plan(keep: 3, offered: "meteor-a") == ["v1.1.0", "meteor-a", "meteor-d"])
        #expect(try Self.plan(keep: 1, blocked: ["meteor-a"], offered: "meteor-a") == ["v1.1.0", "meteor-d"])
        #expect(try Self.plan(keep: 1, offered: "embedded") == ["v1.1.0", "meteor-d"])
    }

    // MARK: Explaining

    private static func reasons(_ device: Device) throws -> [String] {
        StatusRule.rows(try device.inventory(), shell: try Sample.version("1.0.0")).map {
            "\($0.isNext ? "*" : "-") \($0.name): \($0.reason)"
        }
    }

    @Test func `explains how the sources affect a client`() throws {
        let order = "the order of the sources is"
        #expect(
            try Self.reasons(Device()) == [
                "- embedded: the seed; meteor-b is next",
                "- v1.0.0: usable, but meteor-b is next: \(order) meteor,archive",
                "- v1.1.0: usable, but meteor-b is next: \(order) meteor,archive",
                "- meteor-a: usable, but meteor-b is next", "* meteor-b: the last usable hot code push",
            ])
        #expect(
            try Self.reasons(Device(order: "archive,meteor")).dropFirst() == [
                "- v1.0.0: usable, but v1.1.0 is next", "* v1.1.0: the newest usable client",
                "- meteor-a: usable, but v1.1.0 is next: \(order) archive,meteor",
                "- meteor-b: usable, but v1.1.0 is next: \(order) archive,meteor",
            ])
        #expect(
            try Self.reasons(Device(order: "archive")).dropFirst(3) == [
                "- meteor-a: usable, but v1.1.0 is next: the source meteor is disabled",
                "- meteor-b: usable, but v1.1.0 is next: the source meteor is disabled",
            ])
        #expect(
            try Self.reasons(Device(offered: "embedded", seed: "2")).dropFirst(3) == [
                "- meteor-a: usable, but v1.1.0 is next: the server offers the seed's own version",
                "- meteor-b: uses files of another seed than this shell has",
            ])
        #expect(
            try Self.reasons(Device(blocked: ["meteor-b"])).dropFirst(3) == [
                "* meteor-a: the last usable hot code push",
                "- meteor-b: blocked since 2020-09-13T12:26:40Z: it crashed",
            ])
        #expect(
            try Self.reasons(Device(order: "meteor", offered: "embedded")).prefix(2) == [
                "* embedded: the seed; no installed client is usable",
                "- v1.0.0: usable, but embedded is next: the source archive is disabled",
            ])
    }
}
