import ArchiveSource
import BundleCore
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

/// What a channel recalls is offered by no document that is written.
@Suite struct `The recalls of a feed` {
    private let bench: Bench

    init() throws { bench = try Bench() }

    private func put(
        _ name: String, _ versions: [String], recalling: [String] = [], floor: String? = nil
    ) throws {
        var document = try bench.document(name: name)
        for version in versions { _ = try document.add(try bench.manifest(version), rollout: nil) }
        document.revoked = try recalling.map { .init(version: try bench.version($0), reason: "white screen") }
        document.minimumVersion = try floor.map(bench.version)
        try bench.put(document)
    }

    private func manifest(_ version: String) throws -> [UInt8] {
        NewestManifest.manifest(of: ChannelDocument.Release(try bench.manifest(version)))
    }

    private func offer(_ version: String) -> UpdateFailure? {
        bench.refusal { try ReleaseFeed.setNewest(manifest(version), in: bench.place, after: nil) }
    }

    @Test func `keep a version out of manifest.json, whichever channel recalls it`() throws {
        try put("beta", ["1.1.0"], recalling: ["1.1.0"])
        let refused = offer("1.1.0")
        #expect(refused?.code == .versionBlocked)
        #expect(refused?.message.contains("--undo --channel beta") == true)
        #expect(offer("1.0.0") == nil)
    }

    @Test func `of the standard channel count for manifest.json before those of others`() throws {
        try put("beta", ["1.1.0"], recalling: ["1.1.0"])
        try put("stable", ["1.1.0", "1.2.0"], recalling: ["1.2.0"], floor: "1.0.5")
        #expect(offer("1.2.0")?.code == .versionBlocked)
        #expect(offer("1.0.4")?.code == .versionBlocked)
        #expect(offer("1.1.0") == nil)
    }

    @Test func `keep a version out of another channel, unless that one takes it back by name`() throws {
        try put("beta", ["1.0.0", "1.1.0"])
        try put("stable", ["1.0.0"], recalling: ["1.1.0"])
        func promote() throws -> ChannelReport {
            try bench.editor().promote(bench.version("1.1.0"), from: "stable", to: "beta", rollout: nil)
        }
        let version = try bench.version("1.1.0")
        let refused = bench.refusal {
            _ = try bench.editor().promote(version, from: "beta", to: "stable", rollout: nil)
        }
        #expect(refused?.code == .versionBlocked)
        // What beta offered before stays editable, and a recall there is always possible.
        #expect(try bench.editor().apply(.resign, to: "beta").document.sequence == 2)
        #expect(try bench.editor().apply(.revoke(version, reason: "bad"), to: "beta").document.sequence == 3)
        #expect(try bench.editor().apply(.reinstate(version), to: "beta").document.sequence == 4)
    }

    @Test func `of a channel that cannot be read keep out what is new, and nothing else`() throws {
        try put("beta", ["1.0.0"])
        try put("stable", ["1.0.0", "1.1.0"])
        try bench.folder.write([0x7B], to: "feed/channels/broken.json")
        let version = try bench.version("1.1.0")
        let refused = bench.refusal {
            _ = try bench.editor().promote(version, from: "stable", to: "beta", rollout: nil)
        }
        #expect(refused?.code == .manifestMalformed)
        #expect(try bench.editor().apply(.revoke(version, reason: "bad"), to: "stable").document.sequence == 2)
    }
}
