import BundleTesting
import BundleSigning
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct AcceptanceRuleTests {
    /// The device has shell 2.0.0 and the application org.example.a. Its store has 1.0.0, 1.1.0, and 3.0.0 for shells
    /// from 9.0.0. 1.5.0 and 6.0.0 are blocked.
    private static func decide(
        _ version: String, shells: (String, String?), offered: String?, device: String? = "org.example.a"
    ) throws -> Decision {
        let entries = [
            try Sample.entry("1.0.0"), try Sample.entry("1.1.0"), try Sample.entry("3.0.0", minimumShell: "9.0.0"),
        ]
        return AcceptanceRule.decide(
            try MemoryOffer(version, minimumShell: shells.0, maximumShell: shells.1, appId: offered),
            inventory: try Sample.inventory(entries, blocked: ["1.5.0", "6.0.0"]),
            shell: try Sample.version("2.0.0"), appId: device)
    }

    private static let app = "org.example.a"

    @Test(arguments: [
        ("1.2.0", "install"), ("1.1.1-rc.1", "install"), ("2.9.9", "install"), ("3.0.0", "install"),
        ("1.1.0", "upToDate 1.1.0"), ("1.0.0", "upToDate 1.1.0"), ("1.1.0-rc.1", "upToDate 1.1.0"),
        ("0.0.1", "upToDate 1.1.0"), ("1.5.0", "blocked 1.5.0"), ("6.0.0", "blocked 6.0.0"),
    ])
    func `accepts an offer that is newer than every usable client and not blocked`(
        version: String, verdict: String
    ) throws {
        let decision = try Self.decide(version, shells: ("1.0.0", "2.0.0"), offered: Self.app)
        #expect(Self.word(decision.verdict) == verdict)
    }

    @Test(arguments: [
        ("2.0.0", nil, "install"), ("2.0.0", "2.0.0", "install"), ("1.0.0", "3.0.0", "install"),
        ("2.0.1", nil, "needs 2.0.1"), ("1.0.0", "1.9.9", "up to 1.9.9"), ("1.0.0", "2.0.0-rc.1", "up to 2.0.0-rc.1"),
    ])
    func `accepts an offer for the shells of its range, including both ends`(
        minimum: String, maximum: String?, verdict: String
    ) throws {
        let decision = try Self.decide("1.2.0", shells: (minimum, maximum), offered: Self.app)
        #expect(Self.word(decision.verdict) == verdict)
    }

    @Test(arguments: [
        ("org.example.a", "org.example.a", "install"), (nil, "org.example.b", "install"), (nil, nil, "install"),
        ("org.example.a", "org.example.b", "wrong app org.example.b"), ("org.example.a", nil, "wrong app none"),
        ("org.example.a", "org.example.A", "wrong app org.example.A"), ("org.example.a", "", "wrong app "),
        // Equal as Swift strings, but with other bytes.
        ("caf\u{E9}", "cafe\u{301}", "wrong app cafe\u{301}"),
    ])
    func `compares the application of an offer byte for byte`(
        device: String?, offered: String?, verdict: String
    ) throws {
        let decision = try Self.decide("1.2.0", shells: ("1.0.0", nil), offered: offered, device: device)
        #expect(Self.word(decision.verdict).utf8.elementsEqual(verdict.utf8))
    }

    @Test func `rejects an offer that its channel recalled or that its rollout excludes`() throws {
        var ledger = Ledger()
        ledger.feed.follow(
            FeedMemory.ChannelMemory(
                name: "stable", sequence: 1, payloadSha256: try .of([]), signers: [], issuedAt: .now, expires: .now,
                recalled: [.init(version: try Sample.version("1.5.0"), reason: "it leaks")],
                minimumVersion: try Sample.version("1.2.0"), leftOut: [try Sample.version("1.6.0")]))
        for (version, verdict) in [
            ("1.5.0", Decision.Verdict.withdrawn(.recalled(reason: "it leaks"))),
            ("1.1.0", .withdrawn(.belowFloor(try Sample.version("1.2.0")))), ("1.6.0", .withdrawn(.leftOut)),
            ("1.2.0", .install),
        ] {
            let decision = AcceptanceRule.decide(
                try MemoryOffer(version, minimumShell: "1.0.0", maximumShell: nil, appId: nil),
                inventory: try Sample.inventory(ledger), shell: try Sample.version("2.0.0"), appId: nil)
            #expect(decision.verdict == verdict, "\(version)")
        }
    }

    /// Each row fails one rule more than a later one. The first failed rule decides.
    @Test(arguments: [
        ("1.5.0", "9.0.0", "org.example.b", "wrong app org.example.b", [false, false, false, true]),
        ("1.5.0", "9.0.0", "org.example.a", "needs 9.0.0", [true, false, false, true]),
        ("1.5.0", "1.0.0", "org.example.a", "blocked 1.5.0", [true, true, false, true]),
        ("1.0.0", "9.0.0", "org.example.b", "wrong app org.example.b", [false, false, true, false]),
        ("1.0.0", "9.0.0", "org.example.a", "needs 9.0.0", [true, false, true, false]),
        ("1.0.0", "1.0.0", "org.example.a", "upToDate 1.1.0", [true, true, true, false]),
    ])
    func `decides by the first failed rule and reports the outcome of every rule`(
        version: String, minimum: String, offered: String, verdict: String, passed: [Bool]
    ) throws {
        let decision = try Self.decide(version, shells: (minimum, nil), offered: offered)
        #expect(Self.word(decision.verdict) == verdict)
        #expect(decision.outcomes.map(\.rule) == ["application", "shell", "blocked", "newer"])
        #expect(decision.outcomes.map(\.passed) == passed)
        #expect(decision.outcomes.allSatisfy { !$0.detail.isEmpty })
    }

    @Test func `reports a blocked version as blocked even if it is not newer`() throws {
        let decision = AcceptanceRule.decide(
            try MemoryOffer("1.0.0"),
            inventory: try Sample.inventory([try Sample.entry("1.1.0")], blocked: ["1.0.0"]),
            shell: try Sample.version("1.0.0"), appId: nil)
        #expect(decision.verdict == .blocked(try Sample.block("1.0.0")))
        #expect(decision.outcomes.map(\.passed) == [true, true, false, false])
    }

    @Test func `accepts any version as newer if no usable client is installed`() throws {
        let decision = AcceptanceRule.decide(
            try MemoryOffer("0.0.1-a"), inventory: try Sample.inventory([Ledger.Entry]()),
            shell: try Sample.version("1.0.0"), appId: nil)
        #expect(decision.verdict == .install)
        #expect(decision.outcomes.last?.detail == "offered 0.0.1-a, nothing usable is installed")
    }

    @Test func `accepts an older version if the newest client is blocked`() throws {
        let decision = AcceptanceRule.decide(
            try MemoryOffer("1.5.0"),
            inventory: try Sample.inventory(
                [try Sample.entry("1.0.0"), try Sample.entry("2.0.0")], blocked: ["2.0.0"]),
            shell: try Sample.version("1.0.0"), appId: nil)
        #expect(decision.verdict == .install)
        #expect(decision.outcomes.last?.detail == "offered 1.5.0, newest usable here 1.0.0")
    }

    @Test func `gives each refusal a public code, a subject and advice`() throws {
        let version: ClientVersion = try Sample.version("1.2.0")
        func failure(_ verdict: Decision.Verdict) -> UpdateFailure? { verdict.failure(of: version) }
        #expect(failure(.install) == nil)
        #expect(failure(.upToDate(newest: .installed(version))) == nil)
        let old = try #require(failure(.incompatible(.shellTooOld(minimum: try Sample.version("4.0.0")))))
        #expect(old.code == .incompatibleShell)
        #expect(old.subject == "1.2.0")
        #expect(old.message.contains("needs shell 4.0.0 or newer"))
        let new = try #require(failure(.incompatible(.shellTooNew(maximum: try Sample.version("0.9.0")))))
        #expect(new.code == .incompatibleShell)
        #expect(new.message.contains("up to 0.9.0"))
        let blocked = try #require(failure(.blocked(try Sample.block("1.2.0", "white screen"))))
        #expect(blocked.code == .versionBlocked)
        #expect(blocked.subject == "1.2.0")
        #expect(blocked.message.contains("since 2020-09-13T12:26:40Z: white screen"))
        let other = try #require(failure(.wrongApp(expected: "a.b", found: "c.d")))
        #expect(other.code == .appMismatch)
        #expect(other.subject == "c.d")
        #expect(other.message.contains("is for c.d, and this device runs a.b"))
        #expect(failure(.wrongApp(expected: "a.b", found: nil))?.message.contains("published without --app-id") == true)
    }

    private static func word(_ verdict: Decision.Verdict) -> String {
        switch verdict {
        case .install: "install"
        case .choose(let name): "choose \(name)"
        case .upToDate(let newest): "upToDate \(newest.shortDescription)"
        case .incompatible(.shellTooOld(let minimum)): "needs \(minimum)"
        case .incompatible(.shellTooNew(let maximum)): "up to \(maximum)"
        case .incompatible(.compatible): "compatible"
        case .blocked(let block): "blocked \(block.version)"
        case .withdrawn(let withdrawal): "withdrawn: \(withdrawal)"
        case .notInRollout(let newest, _): "not in rollout, \(newest.shortDescription) runs"
        case .wrongApp(_, let found): "wrong app \(found ?? "none")"
        case .unsuitable(let failure): "unsuitable \(failure.code)"
        }
    }
}
