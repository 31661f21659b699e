import BundleFormats
import ArchiveSource
import BundleValues
import Testing

@testable import BundlePublish

@Suite("Ramps of a channel") struct RampChangeTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func day(_ number: Int) -> Timestamp { workspace.start.adding(.seconds(number * 86_400)) }

    /// A ramp of 1.1.0 to 1%, 10% and 100%, a day apart.
    private func ramp(_ version: String = "1.1.0") throws -> ChannelChange {
        .ramp(try workspace.version(version), steps: [10, 100, 1000], every: 86_400, from: nil)
    }

    @Test func `sets a ramp, and replaces it with a fixed percentage`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("1.1.0")
        #expect(
            try ramp().apply(to: &document, at: workspace.start) == [
                "1.1.0: for every device → a ramp (1% from 2030-01-01T00:00:00Z, 10% from 2030-01-02T00:00:00Z, "
                    + "100% from 2030-01-03T00:00:00Z); 99% go back to 1.0.0 or a newer version that they may run"
            ])
        #expect(document.releases[1].salt == "1.1.0")
        #expect(document.releases[1].share(at: day(1)) == 100)
        #expect(try ramp().apply(to: &document, at: workspace.start).isEmpty)
        // The percentage stays the same, but the ramp ends.
        #expect(
            try ChannelChange.rollout(version, 100).apply(to: &document, at: day(1)).joined().hasSuffix(
                "→ 10% of the devices"))
        #expect(document.releases[1].ramp == nil)
        #expect(document.releases[1].share(at: day(9)) == 100)
    }

    @Test func `stops a ramp during a pause, and delays its remaining steps`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("1.1.0")
        _ = try ramp().apply(to: &document, at: workspace.start)
        #expect(
            try ChannelChange.pause(version).apply(to: &document, at: day(1)) == [
                "1.1.0: paused at 10% of the devices, no further device takes it"
            ])
        #expect(try ChannelChange.pause(version).apply(to: &document, at: day(2)).isEmpty)
        #expect(document.releases[1].share(at: day(30)) == 100)
        #expect(
            try ChannelChange.resume(version).apply(to: &document, at: day(30)) == [
                "1.1.0: no longer paused, 100% from 2030-02-01T00:00:00Z"
            ])
        #expect(document.releases[1].share(at: day(30)) == 100)
        #expect(document.releases[1].share(at: day(31)) == 1000)
    }

    @Test func `starts the ramp of a paused release when it is resumed`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("1.1.0")
        _ = try ChannelChange.pause(version).apply(to: &document, at: workspace.start)
        _ = try ramp().apply(to: &document, at: day(1))
        #expect(document.releases[1].share(at: day(30)) == 10)
        _ = try ChannelChange.resume(version).apply(to: &document, at: day(30))
        #expect(document.releases[1].ramp?.steps.map(\.at) == [day(1), day(31), day(32)])
        // A ramp that a channel file cannot contain is not written.
        let read = try ChannelFormat.parse(ChannelFormat.envelope(document)).claims
        #expect(read.releases[1].ramp == document.releases[1].ramp)
    }

    @Test func `rejects an invalid ramp`() throws {
        for shares in [[], [10, 10], [0, 10], Array(1...21)] {
            let refused = workspace.refusal {
                var document = try workspace.document("1.0.0")
                _ = try ChannelChange.ramp(workspace.version("1.0.0"), steps: shares, every: 60, from: nil)
                    .apply(to: &document, at: workspace.start)
            }
            #expect(refused?.code == .configInvalid, "\(shares)")
        }
    }

    @Test func `promotes a release with its ramp unless another rollout is given`() throws {
        var beta = try workspace.document("1.0.0", "1.1.0", name: "beta")
        _ = try ramp().apply(to: &beta, at: workspace.start)
        try workspace.put(beta)
        var making = workspace.terms()
        making.firstSequence = 1
        let version = try workspace.version("1.1.0")
        _ = try workspace.editor(making).promote(version, from: "beta", to: "stable", rollout: nil)
        #expect(try workspace.read("stable").releases[0].ramp == beta.releases[1].ramp)
        _ = try workspace.editor(making).promote(version, from: "beta", to: "other", rollout: 10)
        #expect(try workspace.read("other").releases[0].ramp == nil)
        #expect(try workspace.read("other").releases[0].rollout == 10)
    }

    @Test func `shows a ramp in the history`() throws {
        var before = try workspace.document("1.0.0", "1.1.0")
        before.releases[1].rollout = 10
        var next = before
        next.sequence = 2
        _ = try ramp().apply(to: &next, at: workspace.start)
        #expect(
            next.changes(since: before) == [
                "1.1.0: for 1% of the devices → a ramp (1% from 2030-01-01T00:00:00Z, 10% from 2030-01-02T00:00:00Z, "
                    + "100% from 2030-01-03T00:00:00Z)"
            ])
        var paused = next
        paused.sequence = 3
        _ = try ChannelChange.pause(workspace.version("1.1.0")).apply(to: &paused, at: day(1))
        #expect(paused.changes(since: next) == ["1.1.0: paused"])
    }

    @Test func `combines a ramp with groups`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("1.1.0")
        _ = try ChannelChange.rollout(version, 10).apply(to: &document, at: workspace.start)
        let first = ChannelChange.groups(version, ["eu", "qa"], only: false)
        #expect(
            try first.apply(to: &document, at: workspace.start) == [
                "1.1.0: for 1% of the devices → the groups eu, qa first, and 1% of the devices"
            ])
        #expect(try first.apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.releases[1].share(at: workspace.start) == 10)
        let before = document
        document.sequence = 2
        #expect(
            try ChannelChange.groups(version, ["qa"], only: true).apply(to: &document, at: workspace.start) == [
                "1.1.0: for the groups eu, qa first, and 1% of the devices → the group qa alone"
            ])
        #expect(document.changes(since: before).joined().hasSuffix("→ the group qa alone"))
        _ = try ChannelChange.rollout(version, 1000).apply(to: &document, at: workspace.start)
        #expect(document.releases[1].share(at: workspace.start) == 0)
        #expect(NewestManifest.release(of: document, at: workspace.start)?.version.description == "1.0.0")
        #expect(
            try ChannelChange.groups(version, [], only: false).apply(to: &document, at: workspace.start) == [
                "1.1.0: for the group qa alone → every device"
            ])
    }

    @Test func `updates manifest.json with the first change after the last step`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        _ = try ramp().apply(to: &document, at: workspace.start)
        #expect(NewestManifest.release(of: document, at: day(1))?.version.description == "1.0.0")
        #expect(NewestManifest.release(of: document, at: day(2))?.version.description == "1.1.0")
    }
}
