import BundleValues
import ArchiveSource
import BundleCore
import Testing

@testable import BundlePublish

@Suite("ChannelChange") struct ChannelChangeTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    @Test func `adds a release for every device, or for a separate cohort`() throws {
        var document = try workspace.document("1.0.0")
        #expect(document.releases.map(\.rollout) == [1000])
        #expect(document.releases.map(\.salt) == [""])
        #expect(try !document.add(workspace.manifest("1.1.0"), rollout: 5).isEmpty)
        #expect(document.releases.map(\.rollout) == [1000, 5])
        #expect(document.releases.map(\.salt) == ["", "1.1.0"])
        #expect(try document.add(workspace.manifest("1.1.0"), rollout: 1000).isEmpty)
        #expect(document.releases.map(\.rollout) == [1000, 5], "publishing again must not widen or narrow a rollout")
    }

    @Test func `keeps the salt of a rollout, so that a higher percentage only adds devices`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        #expect(try !ChannelChange.rollout(version, 10).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.releases[0].salt == "1.0.0")
        document.releases[0].salt = "other"
        #expect(try !ChannelChange.rollout(version, 20).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.releases[0].salt == "other")
        #expect(document.releases[0].rollout == 20)
        #expect(try ChannelChange.rollout(version, 20).apply(to: &document, at: workspace.start).isEmpty)
    }

    @Test func `reports how many devices fall back when a rollout is lowered`() throws {
        var document = try workspace.document("1.0.0", "1.1.0", "1.2.0")
        func lower(_ version: String, _ permille: Int) throws -> [String] {
            try ChannelChange.rollout(workspace.version(version), permille).apply(to: &document, at: workspace.start)
        }
        #expect(
            try lower("1.2.0", 250) == [
                "1.2.0: for every device → 25% of the devices; 75% go back to 1.1.0 or a newer version that they may run"
            ])
        #expect(try lower("1.2.0", 400) == ["1.2.0: for 25% of the devices → 40% of the devices"])
        _ = try ChannelChange.recall(workspace.version("1.1.0"), reason: "bad").apply(
            to: &document, at: workspace.start)
        #expect(
            try lower("1.2.0", 395) == [
                "1.2.0: for 40% of the devices → 39.5% of the devices; 0.5% go back to 1.0.0 or a newer version that they may run"
            ])
        #expect(try lower("1.0.0", 0)[0].hasSuffix("; 100% go back to their other installed releases or their seed"))
    }

    @Test func `pauses and resumes a release once`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("1.1.0")
        for isPaused in [true, false] {
            let change = isPaused ? ChannelChange.pause(version) : .resume(version)
            #expect(try !change.apply(to: &document, at: workspace.start).isEmpty)
            #expect(document.releases.map(\.isPaused) == [false, isPaused])
            #expect(try change.apply(to: &document, at: workspace.start).isEmpty)
        }
    }

    @Test func `recalls a release, changes the reason and undoes the recall`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        for reason in ["white screen", "black screen"] {
            #expect(
                try !ChannelChange.recall(version, reason: reason).apply(to: &document, at: workspace.start).isEmpty)
            #expect(document.recalled == [FeedMemory.Recall(version: version, reason: reason)])
            #expect(try ChannelChange.recall(version, reason: reason).apply(to: &document, at: workspace.start).isEmpty)
        }
        #expect(try !ChannelChange.reinstate(version).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.recalled.isEmpty)
        #expect(document.reinstated == [FeedMemory.Reinstatement(version: version, sequence: 1)])
        #expect(try ChannelChange.reinstate(version).apply(to: &document, at: workspace.start).isEmpty)
        let read = try ChannelFormat.parse(ChannelFormat.envelope(document)).claims
        #expect(read.reinstated == document.reinstated)
        #expect(try !ChannelChange.recall(version, reason: "again").apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.reinstated.isEmpty)
    }

    @Test func `reinstates a release that only an earlier channel file recalled`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        #expect(
            try ChannelChange.reinstate(version).apply(to: &document, at: workspace.start) == [
                "1.0.0: no longer recalled on any device"
            ])
        #expect(document.reinstated == [FeedMemory.Reinstatement(version: version, sequence: 1)])
        let unknown = try workspace.version("9.0.0")
        let refused = workspace.refusal {
            _ = try ChannelChange.reinstate(unknown).apply(to: &document, at: workspace.start)
        }
        #expect(refused?.code == .configInvalid)
    }

    @Test func `lists at most 1024 reinstated versions, and none below the minimum version`() throws {
        var document = try workspace.document("9.0.0")
        for minor in 0...ChannelFormat.mostReinstated {
            let version = try workspace.version("1.\(minor).0")
            _ = try ChannelChange.recall(version, reason: "bad").apply(to: &document, at: workspace.start)
            _ = try ChannelChange.reinstate(version).apply(to: &document, at: workspace.start)
        }
        #expect(document.reinstated.count == ChannelFormat.mostReinstated)
        #expect(document.reinstated.last?.version.description == "1.1024.0")
        _ = try ChannelChange.recallBelow(workspace.version("1.1000.0")).apply(to: &document, at: workspace.start)
        #expect(document.reinstated.count == 25)
    }

    @Test func `rejects a channel file that recalls and reinstates the same version`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        document.recalled = [FeedMemory.Recall(version: version, reason: "bad")]
        document.reinstated = [.init(version: version, sequence: 1)]
        let refused = workspace.refusal { _ = try ChannelFormat.parse(ChannelFormat.envelope(document)) }
        #expect(refused?.code == .manifestMalformed)
        #expect(refused?.message.contains("reinstated") == true)
        document.recalled = []
        document.reinstated = [.init(version: version, sequence: 2)]
        #expect(
            workspace.refusal { _ = try ChannelFormat.parse(ChannelFormat.envelope(document)) }?.code
                == .manifestMalformed)
    }

    @Test func `refuses to resume a recalled release`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        for change in [ChannelChange.pause(version), .recall(version, reason: "bad")] {
            _ = try change.apply(to: &document, at: workspace.start)
        }
        let refusal = workspace.refusal {
            _ = try ChannelChange.resume(version).apply(to: &document, at: workspace.start)
        }
        #expect(refusal?.code == .versionBlocked)
    }

    @Test func `warns about a release that no device installs`() throws {
        let before = try workspace.document("1.0.0", "2.0.0")
        var document = before
        _ = try document.add(workspace.manifest("1.9.0"), rollout: nil)
        let lower = "2.0.0 is for every device, so no device takes 1.9.0. Publish a higher version, or recall 2.0.0."
        #expect(document.warnings(after: before, at: workspace.start) == [lower])
        #expect(document.warnings(after: document, at: workspace.start) == [])
        _ = try ChannelChange.rollout(workspace.version("2.0.0"), 500).apply(to: &document, at: workspace.start)
        #expect(document.warnings(after: before, at: workspace.start) == [])
    }

    @Test func `warns about a change of a paused release, but not about its pause`() throws {
        let version = try workspace.version("1.0.0")
        var paused = try workspace.document("1.0.0")
        let before = paused
        _ = try ChannelChange.pause(version).apply(to: &paused, at: workspace.start)
        #expect(paused.warnings(after: before, at: workspace.start) == [])
        var changed = paused
        _ = try ChannelChange.rollout(version, 500).apply(to: &changed, at: workspace.start)
        #expect(changed.warnings(after: paused, at: workspace.start).map { $0.contains("1.0.0 is paused") } == [true])
    }

    @Test func `warns when the last release for every device is removed`() throws {
        let before = try workspace.document("1.0.0", "1.1.0")
        var document = before
        _ = try ChannelChange.withdraw(workspace.version("1.1.0")).apply(to: &document, at: workspace.start)
        #expect(document.warnings(after: before, at: workspace.start) == [])
        let last = document
        _ = try ChannelChange.withdraw(workspace.version("1.0.0")).apply(to: &document, at: workspace.start)
        #expect(
            document.warnings(after: last, at: workspace.start).map { $0.contains("manifest.json still offers") }
                == [true])
    }

    @Test func `sets and removes the check interval of devices`() throws {
        var document = try workspace.document("1.0.0")
        let poll = ChannelDocument.Poll(interval: 300, jitter: 60)
        let words = "devices check every 5m, with a random delay of up to 1m"
        #expect(try ChannelChange.poll(poll).apply(to: &document, at: workspace.start) == [words])
        #expect(document.poll == poll)
        #expect(try ChannelChange.poll(poll).apply(to: &document, at: workspace.start).isEmpty)
        #expect(try !ChannelChange.poll(nil).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.poll == nil)
    }

    @Test func `sets and clears the urgent flag of a release`() throws {
        var document = try workspace.document("1.0.0")
        let version = try workspace.version("1.0.0")
        let before = document
        let words = "1.0.0: urgent, devices activate it as soon as they have it"
        #expect(try ChannelChange.urgent(version, true).apply(to: &document, at: workspace.start) == [words])
        #expect(try ChannelChange.urgent(version, true).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.releases[0].isUrgent)
        document.sequence = 2
        #expect(document.changes(since: before) == [words])
        #expect(
            try ChannelChange.urgent(version, false).apply(to: &document, at: workspace.start) == [
                "1.0.0: no longer urgent"
            ])
        #expect(
            try document.add(workspace.manifest("1.1.0"), rollout: nil, isUrgent: true) == [
                "1.1.0 added, for every device, urgent"
            ])
        #expect(document.releases[1].isUrgent)
    }

    @Test func `sets and removes the time limit for busy pages`() throws {
        var document = try workspace.document("1.0.0")
        let before = document
        let words = "a busy page defers activation for at most 2m"
        #expect(try ChannelChange.busyLimit(120).apply(to: &document, at: workspace.start) == [words])
        #expect(try ChannelChange.busyLimit(120).apply(to: &document, at: workspace.start).isEmpty)
        let read = try ChannelFormat.parse(ChannelFormat.envelope(document)).claims
        #expect(read.busyLimit == 120)
        document.sequence = 2
        #expect(document.changes(since: before) == [words])
        #expect(try !ChannelChange.busyLimit(nil).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.busyLimit == nil)
    }

    @Test func `raises the minimum version and does not lower it by another one`() throws {
        var document = try workspace.document("1.0.0", "1.2.0")
        #expect(
            try !ChannelChange.recallBelow(workspace.version("1.1.0")).apply(to: &document, at: workspace.start).isEmpty
        )
        #expect(try document.minimumVersion == workspace.version("1.1.0"))
        #expect(
            try ChannelChange.recallBelow(workspace.version("1.1.0")).apply(to: &document, at: workspace.start).isEmpty)
        let refused = workspace.refusal {
            _ = try ChannelChange.recallBelow(workspace.version("1.0.0")).apply(to: &document, at: workspace.start)
        }
        #expect(refused?.code == .rollbackAttempt)
        #expect(refused?.subject == "1.0.0")
        #expect(try document.minimumVersion == workspace.version("1.1.0"))
    }

    @Test func `undoes only the minimum version that is named, and sets a lower one afterwards`() throws {
        var document = try workspace.document("1.0.0", "1.2.0")
        let (low, floor) = (try workspace.version("1.0.5"), try workspace.version("1.1.0"))
        func apply(_ change: ChannelChange) throws -> [String] { try change.apply(to: &document, at: workspace.start) }
        _ = try apply(.recallBelow(floor))
        #expect(workspace.refusal { _ = try apply(.undoMinimum(low)) }?.message.contains("at least 1.1.0") == true)
        _ = try apply(.recall(workspace.version("1.0.0"), reason: "bad"))
        let words = try apply(.reinstate(workspace.version("1.0.0")))
        #expect(words.first?.contains("still below the minimum 1.1.0") == true, "\(words)")
        let before = document
        #expect(try apply(.undoMinimum(floor)).first?.contains("0.9.0") == true)
        #expect(document.minimumVersion == nil && document.undoneMinimum == floor)
        #expect(try apply(.undoMinimum(floor)).isEmpty)
        #expect(document.changes(since: before).contains { $0.hasPrefix("versions below 1.1.0 may run again") })
        _ = try apply(.recallBelow(low))
        #expect(document.minimumVersion == low && document.undoneMinimum == floor)
        let read = try ChannelFormat.parse(ChannelFormat.envelope(document)).claims
        #expect(read.minimumVersion == low && read.undoneMinimum == floor)
        _ = document.restore(before)
        #expect(document.minimumVersion == low)
        _ = try apply(.recallBelow(workspace.version("1.2.0")))
        #expect(document.undoneMinimum == nil)
    }

    @Test func `refuses a minimum version that leaves devices without a release`() throws {
        var document = try workspace.document("1.0.0", "1.2.0")
        let above = workspace.refusal {
            _ = try ChannelChange.recallBelow(workspace.version("1.3.0")).apply(to: &document, at: workspace.start)
        }
        #expect(above?.code == .configInvalid)
        _ = try ChannelChange.recall(workspace.version("1.2.0"), reason: "bad").apply(
            to: &document, at: workspace.start)
        let recalled = workspace.refusal {
            _ = try ChannelChange.recallBelow(workspace.version("1.1.0")).apply(to: &document, at: workspace.start)
        }
        #expect(recalled?.code == .configInvalid)
        #expect(document.minimumVersion == nil)
    }

    @Test func `refuses to offer a release that is recalled or below the minimum version`() throws {
        var document = try workspace.document("1.0.0", "1.2.0")
        _ = try ChannelChange.recallBelow(workspace.version("1.1.0")).apply(to: &document, at: workspace.start)
        _ = try ChannelChange.recall(workspace.version("1.3.0"), reason: "never again").apply(
            to: &document, at: workspace.start)
        for (text, reason) in [("1.3.0", "never again"), ("1.0.5", "1.1.0")] {
            let refused = workspace.refusal { _ = try document.add(workspace.manifest(text), rollout: nil) }
            #expect(refused?.code == .versionBlocked)
            #expect(refused?.subject == text)
            #expect(refused?.message.contains(reason) == true)
        }
        let rollout = workspace.refusal {
            _ = try ChannelChange.rollout(workspace.version("1.0.0"), 5).apply(to: &document, at: workspace.start)
        }
        #expect(rollout?.code == .versionBlocked)
    }

    @Test(arguments: [nil, "com.example.other"])
    func `refuses a release of another application`(appId: String?) throws {
        var document = try workspace.document("1.0.0")
        let refused = workspace.refusal {
            _ = try document.add(workspace.manifest("1.1.0", appId: appId), rollout: nil)
        }
        #expect(refused?.code == .appMismatch)
        #expect(document.releases.count == 1)
    }

    @Test func `lists the existing releases when the version is unknown`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        let version = try workspace.version("2.0.0")
        for change in [ChannelChange.rollout(version, 1), .pause(version), .resume(version), .withdraw(version)] {
            let refused = workspace.refusal { _ = try change.apply(to: &document, at: workspace.start) }
            #expect(refused?.code == .configInvalid)
            #expect(refused?.subject == "2.0.0")
            #expect(refused?.message.contains("1.0.0, 1.1.0") == true)
        }
    }

    @Test func `removes a release from the channel`() throws {
        var document = try workspace.document("1.0.0", "1.1.0")
        #expect(
            try !ChannelChange.withdraw(workspace.version("1.0.0")).apply(to: &document, at: workspace.start).isEmpty)
        #expect(document.releases.map(\.version.description) == ["1.1.0"])
    }
}
