import ArchiveSource
import BundleCore
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

@Suite("FeedRecalls") struct FeedRecallsTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func put(
        _ name: String, _ versions: [String], recalling: [String] = [], floor: String? = nil
    ) throws {
        var document = try workspace.document(name: name)
        for version in versions { _ = try document.add(try workspace.manifest(version), rollout: nil) }
        document.recalled = try recalling.map { .init(version: try workspace.version($0), reason: "white screen") }
        document.minimumVersion = try floor.map(workspace.version)
        try workspace.put(document)
    }

    private func manifest(_ version: String) throws -> [UInt8] {
        NewestManifest.manifest(of: ChannelDocument.Release(try workspace.manifest(version)))
    }

    private func offer(_ version: String) -> UpdateFailure? {
        workspace.refusal { try ReleaseFeed.setNewest(manifest(version), in: workspace.location, after: nil) }
    }

    @Test func `refuses a recalled version in manifest.json, whichever channel recalls it`() throws {
        try put("beta", ["1.1.0"], recalling: ["1.1.0"])
        let refused = offer("1.1.0")
        #expect(refused?.code == .versionBlocked)
        #expect(refused?.message.contains("--undo --channel beta") == true)
        #expect(offer("1.0.0") == nil)
    }

    @Test func `prefers the standard channel over other channels for manifest.json`() throws {
        try put("beta", ["1.1.0"], recalling: ["1.1.0"])
        try put("stable", ["1.1.0", "1.2.0"], recalling: ["1.2.0"], floor: "1.0.5")
        #expect(offer("1.2.0")?.code == .versionBlocked)
        #expect(offer("1.0.4")?.code == .versionBlocked)
        #expect(offer("1.1.0") == nil)
    }

    @Test func `refuses a recalled version in another channel unless that channel undoes the recall by name`() throws {
        try put("beta", ["1.0.0", "1.1.0"])
        try put("stable", ["1.0.0"], recalling: ["1.1.0"])
        func promote() throws -> ChannelReport {
            try workspace.editor().promote(workspace.version("1.1.0"), from: "stable", to: "beta", rollout: nil)
        }
        let version = try workspace.version("1.1.0")
        let refused = workspace.refusal {
            _ = try workspace.editor().promote(version, from: "beta", to: "stable", rollout: nil)
        }
        #expect(refused?.code == .versionBlocked)
        // A release that beta already offered stays editable, and a recall is always possible.
        #expect(try workspace.editor().apply(.renew, to: "beta").document.sequence == 2)
        #expect(try workspace.editor().apply(.recall(version, reason: "bad"), to: "beta").document.sequence == 3)
        #expect(try workspace.editor().apply(.reinstate(version), to: "beta").document.sequence == 4)
    }

    private func apply(_ change: ChannelChange, to channel: String = "stable") throws -> NewestChange {
        try workspace.editor().apply(change, to: channel).newest
    }

    private var offered: String? {
        get throws { try ReleaseFeed.newest(in: workspace.location)?.claims.version.description }
    }

    @Test func `offers another release in manifest.json after a withdrawal and a recall`() throws {
        let (lower, version) = (try workspace.version("1.0.0"), try workspace.version("1.1.0"))
        try put("stable", ["1.0.0", "1.1.0"])
        #expect(try apply(.renew) == .offers(version))
        #expect(try apply(.withdraw(version)) == .offers(lower))
        try workspace.folder.makeFolder("feed/releases/v1.1.0")
        try workspace.folder.write(manifest("1.1.0"), to: "feed/releases/v1.1.0/manifest.json")
        #expect(try apply(.recall(version, reason: "bad")) == .untouched)
        #expect(try offered == "1.0.0")
    }

    @Test func `replaces a recalled release in manifest.json that the channel no longer lists`() throws {
        try put("stable", ["1.0.0"], recalling: ["1.1.0"])
        try workspace.folder.write(manifest("1.1.0"), to: "feed/manifest.json")
        #expect(try apply(.renew) == .offers(workspace.version("1.0.0")))
        #expect(try offered == "1.0.0")
    }

    @Test func `removes manifest.json if its release is recalled and no other is for every device`() throws {
        let version = try workspace.version("1.1.0")
        try put("stable", ["1.1.0"])
        #expect(try apply(.renew) == .offers(version))
        let before = try TreeSnapshot(of: workspace.feed)
        var terms = workspace.terms()
        terms.isDryRun = true
        let recall = ChannelChange.recall(version, reason: "bad")
        let dryRun = try workspace.editor(terms).apply(recall, to: "stable")
        #expect(dryRun.newest == .removed(version))
        #expect(dryRun.writes?.last?.kind == .remove && dryRun.writes?.last?.name == "manifest.json")
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [])
        #expect(try apply(recall) == .removed(version))
        #expect(try offered == nil)
        #expect(try apply(.renew) == .untouched)
        #expect(try apply(.reinstate(version)) == .offers(version))
    }

    @Test func `removes manifest.json if another channel recalls its release`() throws {
        let version = try workspace.version("1.1.0")
        try put("beta", ["1.1.0"])
        try workspace.folder.write(manifest("1.1.0"), to: "feed/manifest.json")
        let location = HookedLocation(workspace.location)
        let report = try ChannelEditor(feed: location, workspace.terms()).apply(
            .recall(version, reason: "bad"), to: "beta")
        #expect(report.newest == .removed(version))
        #expect(try offered == nil)
    }

    @Test func `keeps a release in manifest.json that the standard channel lists and another channel recalls`() throws {
        try put("stable", ["1.1.0"])
        #expect(try apply(.renew) != .untouched)
        try put("beta", ["1.1.0"])
        #expect(try apply(.recall(workspace.version("1.1.0"), reason: "bad"), to: "beta") == .untouched)
        #expect(try offered == "1.1.0")
    }

    @Test func `keeps a manifest.json that another publisher wrote before the removal`() throws {
        let version = try workspace.version("1.1.0")
        try put("stable", ["1.1.0"])
        #expect(try apply(.renew) != .untouched)
        let location = HookedLocation(workspace.location)
        var isFixed = false
        location.beforeRead = { [workspace] name in
            guard !isFixed, name == "channels/stable.json",
                (try? workspace.read().recalls(version)) == true
            else { return }
            isFixed = true
            var fixed = try? workspace.read()
            fixed?.sequence += 1
            _ = try? fixed?.add(workspace.manifest("1.2.0"), rollout: nil)
            if let fixed { try? workspace.put(fixed) }
            _ = try? workspace.folder.write(
                NewestManifest.manifest(of: ChannelDocument.Release(workspace.manifest("1.2.0"))),
                to: "feed/manifest.json")
        }
        _ = try ChannelEditor(feed: location, workspace.terms()).apply(.recall(version, reason: "bad"), to: "stable")
        #expect(isFixed)
        #expect(try offered == "1.2.0")
    }

    @Test func `removes a recalled manifest.json from the target of a copy`() throws {
        let version = try workspace.version("1.1.0")
        try put("stable", ["1.1.0"])
        #expect(try apply(.renew) != .untouched)
        let target = FeedFolder(workspace.folder.file("copy"))
        let copy = FeedTransfer(from: workspace.location, to: target, isDryRun: false)
        _ = try copy.run(FeedWait())
        #expect(try ReleaseFeed.newest(in: target)?.claims.version == version)
        #expect(try apply(.recall(version, reason: "bad")) == .removed(version))
        _ = try copy.run(FeedWait())
        #expect(try ReleaseFeed.newest(in: target) == nil)
    }

    @Test func `refuses only new releases if a channel cannot be read`() throws {
        try put("beta", ["1.0.0"])
        try put("stable", ["1.0.0", "1.1.0"])
        try workspace.folder.write([0x7B], to: "feed/channels/broken.json")
        let version = try workspace.version("1.1.0")
        let refused = workspace.refusal {
            _ = try workspace.editor().promote(version, from: "stable", to: "beta", rollout: nil)
        }
        #expect(refused?.code == .manifestMalformed)
        #expect(try workspace.editor().apply(.recall(version, reason: "bad"), to: "stable").document.sequence == 2)
    }
}
