import ArchiveSource
import BundleCore
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

@Suite("ChannelUpkeep") struct ChannelUpkeepTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func put(_ versions: [String], _ change: (inout ChannelDocument) throws -> Void = { _ in }) throws {
        var document = try workspace.document()
        for version in versions { _ = try document.add(try workspace.manifest(version), rollout: nil) }
        try change(&document)
        try workspace.put(document)
    }

    @Test func `judges the size of a channel file by quarters of the limit`() {
        let quarter = ChannelFormat.maximumBytes / 4
        let rows: [(Int, ChannelSize)] = [
            (0, .small), (quarter, .small), (quarter + 1, .large), (3 * quarter, .large), (3 * quarter + 1, .full),
            (4 * quarter, .full), (4 * quarter + 1, .tooLarge),
        ]
        for (bytes, size) in rows { #expect(ChannelSize.judge(bytes) == size, "\(bytes)") }
    }

    @Test func `accepts recalls and refuses releases in a full channel`() throws {
        try put((0..<20).map { "1.\($0).0" }) {
            $0.recalled = [
                .init(version: try workspace.version("9.0.0"), reason: String(repeating: "x", count: 600 << 10))
            ]
        }
        let terms = workspace.terms(after: 0)
        var creating = terms
        creating.firstSequence = 1
        _ = try workspace.editor(creating).promote(
            workspace.version("1.19.0"), from: "stable", to: "beta", rollout: nil)
        let beta = try workspace.editor(terms).promote(
            workspace.version("1.18.0"), from: "stable", to: "beta", rollout: nil)
        #expect(!beta.warnings.contains { $0.contains("channel prune") })
        let recalled = try workspace.editor().apply(.recall(workspace.version("1.19.0"), reason: "bad"), to: "stable")
        #expect(recalled.warnings.contains { $0.contains("channel prune --keep 5 --channel stable") })
        _ = try workspace.editor().apply(.withdraw(workspace.version("1.18.0")), to: "stable")
        let refused = workspace.refusal {
            _ = try workspace.editor().promote(workspace.version("1.18.0"), from: "beta", to: "stable", rollout: nil)
        }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("only recalls and changes are accepted") == true, "\(refused?.message ?? "")")
    }

    @Test func `refuses a channel file that is too large for devices`() throws {
        try put(["1.0.0"])
        let reason = String(repeating: "x", count: 900 << 10)
        let refused = workspace.refusal {
            _ = try workspace.editor().apply(.recall(workspace.version("1.0.0"), reason: reason), to: "stable")
        }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("devices read") == true, "\(refused?.message ?? "")")
    }

    @Test func `prunes the lowest releases that no device installs, and no recall`() throws {
        try put(["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"]) {
            $0.releases[4].rollout = 100
            $0.releases[5].isPaused = true
            $0.recalled = [
                .init(version: try workspace.version("1.2.0"), reason: "bad"),
                .init(version: try workspace.version("0.1.0"), reason: "old"),
            ]
            $0.minimumVersion = try workspace.version("1.0.0")
        }
        #expect(
            try workspace.read().unreachable(at: workspace.start).map(\.description) == ["1.2.0", "1.1.0", "1.0.0"])
        let report = try workspace.editor().prune("stable", keeping: 1)
        #expect(report.document.releases.map(\.version.description) == ["1.2.0", "1.3.0", "1.4.0", "1.5.0"])
        #expect(report.document.recalled.map(\.version.description) == ["1.2.0"])
        #expect(report.changes.count == 3)
        #expect(try workspace.editor().prune("stable", keeping: 1).outcome == .unchanged)
    }

    @Test func `keeps releases for shells that the newest release does not support`() throws {
        var document = try workspace.document()
        func add(_ text: String, _ minimum: String, _ maximum: String?) throws {
            var claims = try workspace.manifest(text).claims
            claims.shells = try ShellRange(minimum: workspace.version(minimum), maximum: maximum.map(workspace.version))
            let manifest = ManifestFormat.document(claims, signature: try workspace.release.sign(claims.statement()))
            _ = try document.add(ManifestFormat.parse(JSONWriter.bytes(of: manifest)), rollout: nil)
        }
        try add("1.0.0", "1.0.0", "2.0.0")
        try add("1.1.0", "1.0.0", "2.0.0")
        try add("1.2.0", "2.0.0", nil)
        #expect(document.unreachable(at: workspace.start).map(\.description) == ["1.0.0"])
    }

    @Test func `bounds a channel automatically when releases are added`() throws {
        var document = try workspace.document()
        for minor in 0..<40 {
            _ = try document.addPruning(at: workspace.start) {
                try $0.add(workspace.manifest("1.\(minor).0"), rollout: nil)
            }
        }
        #expect(document.releases.count == ChannelDocument.keptUnreachable + 1)
        #expect(document.releases.map(\.version).max()?.description == "1.39.0")
    }

    @Test func `keeps at most a hundred numbered copies`() throws {
        try put(["1.0.0"])
        for _ in 0..<104 { _ = try workspace.editor().apply(.renew, to: "stable") }
        let sequences = try ChannelHistory.sequences(of: "stable", in: workspace.location)
        #expect(sequences.first == 6 && sequences.last == 105)
    }

    // MARK: Commands

    private func upkeep(isDryRun: Bool = false) -> ChannelUpkeep {
        ChannelUpkeep(workspace.location, isDryRun: isDryRun, wait: FeedWait())
    }

    @Test func `removes old copies when the operator limits them`() throws {
        try put(["1.0.0"])
        for _ in 0..<5 { _ = try workspace.editor().apply(.renew, to: "stable") }
        var terms = workspace.terms()
        terms.isDryRun = true
        let planned = try upkeep(isDryRun: true).prune("stable", keep: 0, copies: 2, terms: terms)
        #expect(planned.removed.count == 3)
        #expect(try ChannelHistory.sequences(of: "stable", in: workspace.location).count == 5)
        let done = try upkeep().prune("stable", keep: 0, copies: 2, terms: workspace.terms())
        #expect(done.removed == planned.removed && done.document?.outcome == .unchanged)
        #expect(try ChannelHistory.sequences(of: "stable", in: workspace.location) == [5, 6])
    }

    @Test(arguments: LocationKind.all)
    func `deletes a channel with its hold and copies, the channel file first`(_ kind: LocationKind) throws {
        let location = try kind.location(in: workspace.folder)
        let names = [
            "channels/stabel.json", "channels/stabel.hold.json", "channels/stabel/1.json", "channels/stabel/2.json",
        ]
        for name in names + ["channels/stable.json"] { _ = try location.create(name, with: .bytes([0x7B, 0x7D])) }
        let upkeep = ChannelUpkeep(location, isDryRun: false, wait: FeedWait())
        #expect(try upkeep.delete("stabel").removed == names)
        #expect(try location.list("channels").map(\.name) == ["channels/stable.json"])
        #expect(workspace.refusal { _ = try upkeep.delete("stabel") }?.code == .configInvalid)
    }
}
