import BundleDisk
import BundleTesting
import BundleSigning
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests the eight keys of METEOR section 4.1, which the ledger stores in one file.
@Suite struct PeerStateTests {
    private static func version(_ text: String) throws -> MeteorVersion { try MeteorVersion(parsing: text) }

    private static func name(_ text: String) throws -> ClientName { .installed(.meteor(try version(text))) }

    private static func facts(_ text: String) throws -> MeteorFacts {
        MeteorFacts(
            version: try version(text), appId: "app of \(text)", rootURL: "http://\(text).test",
            compatibility: "compatibility of \(text)")
    }

    /// Returns the ledger of a device with the seed `initial`, on which `good` has started and `next` is downloaded.
    private static func used() throws -> Ledger {
        var ledger = Ledger()
        let seed = try SHA256Digest.of([1])
        ledger.adopt(seed: seed, try facts("initial"))
        for text in ["good", "bad", "next"] {
            ledger.record(
                Ledger.Entry(
                    identity: BundleIdentity(version: try version(text), facts: try facts(text), seed: seed),
                    contentSha256: try .of([]), installedSize: 1, fileCount: 1, installedAt: .now))
        }
        try fail("bad", in: &ledger)
        try fail("bad", in: &ledger)
        ledger.begin(try LaunchClaim(try name("good"), .random()), at: .now, awaitsPage: false)
        ledger.settleGood(at: .now)
        ledger.schedule(try name("next"))
        return ledger
    }

    private static func fail(_ text: String, in ledger: inout Ledger) throws {
        ledger.begin(try LaunchClaim(try name(text), .random()), at: .now, awaitsPage: false)
        ledger.settle(faulty: StartFailure(.notConfirmed, detail: "", at: .now))
    }

    /// Returns the ledger as the next process reads it.
    private static func reread(_ ledger: Ledger) throws -> Ledger {
        let folder = try TemporaryDirectory.ofTests()
        try LedgerFile.write(ledger, to: folder.directory)
        return try #require(try LedgerFile.read(folder.directory))
    }

    @Test func `SW-59: reads the peers' eight values as they were written`() throws {
        let ledger = try Self.reread(try Self.used())
        // appId, rootURL and cordovaCompatibilityVersion are those of the current bundle.
        #expect(ledger.meteorFacts == (try Self.facts("good")))
        // lastSeenInitialVersion
        #expect(ledger.seedFacts == (try Self.facts("initial")))
        // lastDownloadedVersion
        #expect(ledger.offered == (try Self.name("next")))
        #expect(ledger.pending == (try Self.name("next")))
        #expect(ledger.lastKnownGood == (try Self.name("good")))
        // blacklistedVersions
        #expect(ledger.blocks.map(\.version) == [.meteor(try Self.version("bad"))])
        #expect(ledger == (try Self.reread(ledger)))
    }

    @Test func `SW-60: another seed removes the state of the old one`() throws {
        var ledger = try Self.used()
        ledger.adopt(seed: try .of([2]), try Self.facts("other"))
        ledger = try Self.reread(ledger)
        #expect(ledger.seedFacts == (try Self.facts("other")))
        #expect(ledger.meteorFacts == (try Self.facts("other")))
        #expect(ledger.current == .embedded)
        #expect(ledger.lastKnownGood == .embedded)
        #expect(ledger.offered == nil)
        #expect(ledger.pending == nil)
        #expect(ledger.previous == nil)
        #expect(ledger.launch == nil)
        #expect(ledger.entries.isEmpty)
        #expect(ledger.blocks.isEmpty)
        #expect(ledger.records.isEmpty)
    }

    @Test func `SW-61, SW-62, SW-63: retries a failed version, then blocks it once`() throws {
        var ledger = try Self.used()
        let version = ClientVersion.meteor(try Self.version("next"))
        try Self.fail("next", in: &ledger)
        ledger = try Self.reread(ledger)
        guard case .failed(let failure) = ledger.standing(of: version) else {
            Issue.record("it is \(ledger.standing(of: version))")
            return
        }
        #expect(failure.cause == .notConfirmed)
        #expect(ledger.block(on: version) == nil)
        try Self.fail("next", in: &ledger)
        ledger = try Self.reread(ledger)
        #expect(ledger.block(on: version)?.cause == .failedStarts)
        #expect(ledger.block(on: version)?.count == 2)
        try Self.fail("next", in: &ledger)
        ledger = try Self.reread(ledger)
        #expect(ledger.blocks.filter { $0.version == version }.map(\.count) == [3])
        #expect(ledger.blocks.count == 2)
    }
}
