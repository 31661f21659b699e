import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests changes of a store by hand and the launches after them.
@Suite struct ByHandTests {
    private let folder: TemporaryFolder
    private let seed: String

    init() throws {
        folder = try TemporaryFolder()
        seed = try folder.writeTree(["index.html": Array("<p>seed".utf8)], to: "seed")
    }

    private var store: String { folder.file("store") }

    private func fill(_ versions: [String], _ change: (inout Ledger) throws -> Void = { _ in }) throws {
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        for version in versions {
            let files = ["index.html": Array("<p>\(version)".utf8), "app.js": [1]]
            _ = try folder.writeTree(files, to: "store/clients/v\(version)")
        }
        var ledger = try LedgerFile.read(folders.root) ?? Ledger()
        for version in versions { ledger.record(try Sample.entry(version)) }
        try change(&ledger)
        try LedgerFile.write(ledger, to: folders.root)
    }

    private func launcher(seed: String?, verifies: Bool = false) throws -> Launcher {
        let device = Launcher.LaunchDevice(
            store: store, shell: try Sample.version("1.0.0"), seed: seed, verifies: verifies)
        return try Launcher(device, environment: Environment())
    }

    private func verdicts() throws -> Verdicts { try Verdicts(store: store, environment: Environment()) }

    @Test func `rolls back from a failed launch to the named client`() throws {
        try fill(["1.0.0", "1.5.0", "2.0.0"])
        let launched = try launcher(seed: seed).launch()
        _ = try verdicts().fail(launched.name, launched.token, StartFailure(.reported, detail: "", at: .now))
        #expect(try launcher(seed: seed).prepare().choice.name == (try Sample.name("1.5.0")))
        let target = try Sample.name("1.0.0")
        #expect(try verdicts().rollBack(to: target).back().target == target)
        #expect(try launcher(seed: seed).prepare().choice.name == target)
    }

    @Test(arguments: [true, false]) func `rolls back to the seed if there is one`(hasSeed: Bool) throws {
        try fill(["1.0.0"])
        let launched = try launcher(seed: hasSeed ? seed : nil).launch()
        _ = try verdicts().confirm(launched.name, launched.token)
        do {
            _ = try verdicts().rollBack(to: .embedded)
            #expect(hasSeed)
        } catch let failure as UpdateFailure {
            #expect(!hasSeed && failure.code == .usage)
        }
        #expect(try launcher(seed: hasSeed ? seed : nil).prepare().choice.name == (hasSeed ? .embedded : launched.name))
    }

    @Test(arguments: [
        ("1.1.0", "it is recalled by its channel: white screen."),
        ("0.9.0", "it is below 1.0.0, the lowest version that its channel allows."),
        ("1.3.0", "it is not for this device: its rollout excludes it."),
    ]) func `refuses to roll back to a withdrawn version`(version: String, reason: String) throws {
        try fill(["0.9.0", "1.1.0", "1.2.0", "1.3.0", "2.0.0"]) { ledger in
            ledger.feed.follow(
                FeedMemory.ChannelMemory(
                    name: "stable", sequence: 1, payloadSha256: try .of([1]), signers: ["a"],
                    issuedAt: Timestamp(clamping: 100), expires: Timestamp(clamping: 200),
                    recalled: [FeedMemory.Recall(version: try Sample.version("1.1.0"), reason: "white screen")],
                    minimumVersion: try Sample.version("1.0.0"), leftOut: [try Sample.version("1.3.0")]))
        }
        let launched = try launcher(seed: seed).launch()
        _ = try verdicts().confirm(launched.name, launched.token)
        let refusal = try #require(throws: UpdateFailure.self) {
            try verdicts().rollBack(to: try Sample.name(version))
        }
        #expect(refusal.code == .versionBlocked)
        #expect(refusal.message.contains(reason))
        #expect(try launcher(seed: seed).prepare().choice.name == launched.name)
        let allowed = try Sample.name("1.2.0")
        #expect(try verdicts().rollBack(to: allowed).back().target == allowed)
    }

    @Test func `recreates a serving root without an index page`() throws {
        try fill(["1.0.0"])
        let root = try launcher(seed: nil).prepare().client.root
        try root.directory.removeFile("index.html")
        try root.directory.removeFile("app.js")
        let again = try launcher(seed: nil).prepare().client.root
        #expect(try TreeSnapshot(of: again.path).files.keys.sorted() == ["app.js", "index.html"])
    }
}
