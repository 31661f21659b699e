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
