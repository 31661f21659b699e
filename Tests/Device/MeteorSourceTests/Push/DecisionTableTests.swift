import BundleDisk
import BundleSigning
import MeteorTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues
@testable import MeteorSource

/// Tests every combination of the conditions of METEOR section 3.2. `UpdateRunner` implements rows a and e.
@Suite("HotCodePushRule") struct DecisionTableTests {
    /// The conditions of an offer.
    struct Case: CustomTestStringConvertible {
        let number: Int

        var isCurrent: Bool { number & 1 != 0 }
        var isPending: Bool { number & 2 != 0 }
        var isBlocked: Bool { number & 4 != 0 }
        var isIncompatible: Bool { number & 8 != 0 }
        var isSeed: Bool { number & 16 != 0 }
        var isInstalled: Bool { number & 32 != 0 }

        var testDescription: String {
            let names = [
                isCurrent ? "current" : "", isPending ? "pending" : "", isBlocked ? "blocked" : "",
                isIncompatible ? "incompatible" : "", isSeed ? "the seed's" : "", isInstalled ? "installed" : "",
            ]
            let held = names.filter { !$0.isEmpty }
            return held.isEmpty ? "nothing" : held.joined(separator: ", ")
        }

        /// The first row of the table that applies.
        var row: String {
            if isCurrent { return "b" }
            if isPending { return "b'" }
            if isBlocked { return "c" }
            if isIncompatible { return "d" }
            if isSeed { return "f" }
            return isInstalled ? "g" : "h"
        }
    }

    private let offered: ClientName
    private let other: ClientName

    init() throws {
        offered = .installed(.meteor(try MeteorVersion(parsing: "offered")))
        other = .installed(.meteor(try MeteorVersion(parsing: "other")))
    }

    private func offer(_ compatibility: String = "android-1") throws -> MeteorOffer {
        let bundle = App.bundle("offered", []).with { $0.compatibility = ["android": .string(compatibility)] }
        let manifest = try AssetManifest(parsing: bundle.build().manifest, limits: AssetManifestLimits())
        return MeteorOffer(manifest: manifest, compatibility: try manifest.requireCompatibility(of: .android))
    }

    private func facts(_ version: String) throws -> MeteorFacts {
        MeteorFacts(
            version: try MeteorVersion(parsing: version), appId: "app", rootURL: App.rootURL,
            compatibility: "android-1")
    }

    private func bundle(_ version: String, seed: SHA256Digest? = nil) throws -> InstalledBundle {
        let identity = BundleIdentity(
            version: try MeteorVersion(parsing: version), facts: try facts(version), seed: seed)
        let entry = Ledger.Entry(
            identity: identity, contentSha256: try .of([1]), installedSize: 1, fileCount: 1, installedAt: .now)
        return InstalledBundle(entry: entry, path: "/store/meteor/\(version)")
    }

    private func block(_ cause: Ledger.Block.Cause = .failedStarts) throws -> Ledger.Block {
        Ledger.Block(
            version: .meteor(try MeteorVersion(parsing: "offered")), cause: cause, reason: "it failed", count: 2,
            since: .now)
    }

    private func inventory(_ bundles: [InstalledBundle], _ change: (inout Ledger) throws -> Void) rethrows -> Inventory
    {
        var ledger = Ledger()
        ledger.entries = bundles.map(\.entry)
        try change(&ledger)
        return Inventory(path: "/store", ledger: ledger, bundles: bundles)
    }

    @Test("decides by the first row that applies", arguments: (0..<64).map(Case.init))
    func order(row: Case) throws {
        let block = try block()
        let bundles = try [bundle("other")] + (row.isInstalled ? [bundle("offered")] : [])
        let inventory = inventory(bundles) { ledger in
            ledger.current = row.isCurrent ? offered : other
            ledger.pending = row.isPending ? offered : nil
            ledger.blocks = row.isBlocked ? [block] : []
        }
        let decision = HotCodePushRule.decide(
            on: try offer(row.isIncompatible ? "android-2" : "android-1"), in: inventory,
            seed: try facts(row.isSeed ? "offered" : "seed"))
        switch row.row {
        case "b", "b'": #expect(decision.verdict == .upToDate(newest: offered))
        case "c": #expect(decision.verdict == .blocked(block))
        case "d":
            guard case .unsuitable(let failure) = decision.verdict else {
                Issue.record("\(decision.verdict)")
                return
            }
            #expect(failure.code == .unsuitableBundle)
            #expect(failure.message.contains("potentially incompatible"))
            #expect(failure.message.contains("android-2"))
            #expect(failure.message.contains("android-1"))
        case "f": #expect(decision.verdict == .choose(.embedded))
        case "g": #expect(decision.verdict == .choose(offered))
        default: #expect(decision.verdict == .install)
        }
        let passed = Dictionary(uniqueKeysWithValues: decision.outcomes.map { ($0.rule, $0.passed) })
        #expect(decision.outcomes.map(\.rule) == ["new", "blocked", "compatibility"])
        #expect(passed["new"] == !(row.isCurrent || row.isPending))
        #expect(passed["blocked"] == !row.isBlocked)
        #expect(passed["compatibility"] == !row.isIncompatible)
    }

    @Test("does not block or choose the version of the running seed")
    func seedRuns() throws {
        let block = try block()
        let inventory = inventory([]) { $0.blocks = [block] }
        let decision = HotCodePushRule.decide(on: try offer(), in: inventory, seed: try facts("offered"))
        #expect(decision.verdict == .upToDate(newest: .embedded))
    }

    @Test("chooses an installed version that failed once")
    func failedOnce() throws {
        let failure = StartFailure(.notConfirmed, detail: "", at: .now)
        let version = try MeteorVersion(parsing: "offered")
        let inventory = try inventory([try bundle("offered")]) { ledger in
            ledger.records = [StartRecord(version: .meteor(version), goodSince: nil, failures: [failure])]
            ledger.current = offered
            ledger.launch = Launch(
                name: offered, tokenSha256: try .of([]), at: .now, isTrial: true, verdict: .faulty)
            ledger.pending = .embedded
        }
        let decision = HotCodePushRule.decide(on: try offer(), in: inventory, seed: try facts("seed"))
        #expect(decision.verdict == .choose(offered))
    }

    @Test("downloads an installed version again if it inherits from another seed")
    func otherSeed() throws {
        let (here, elsewhere) = (try SHA256Digest.of([1]), try SHA256Digest.of([2]))
        let inventory = inventory([try bundle("offered", seed: elsewhere)]) { $0.seed = here }
        #expect(HotCodePushRule.decide(on: try offer(), in: inventory, seed: try facts("seed")).verdict == .install)
    }

    @Test("uses the compatibility version of the running bundle, not of the seed")
    func runningBundleCounts() throws {
        let inventory = inventory([try bundle("other")]) { $0.current = other }
        let seed = MeteorFacts(
            version: try MeteorVersion(parsing: "seed"), appId: "app", rootURL: nil, compatibility: "android-2")
        #expect(HotCodePushRule.decide(on: try offer("android-1"), in: inventory, seed: seed).verdict == .install)
        guard case .unsuitable = HotCodePushRule.decide(on: try offer("android-2"), in: inventory, seed: seed).verdict
        else {
            Issue.record("android-2 was taken")
            return
        }
    }

    @Test("accepts any compatibility version if the shell's is unknown")
    func nothingKnown() throws {
        #expect(HotCodePushRule.decide(on: try offer("any"), in: inventory([]) { _ in }, seed: nil).verdict == .install)
    }
}
