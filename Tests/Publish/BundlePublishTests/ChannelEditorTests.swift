import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@testable import BundlePublish

@Suite("ChannelEditor") struct ChannelEditorTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func pause(_ terms: ChannelTerms? = nil) throws -> ChannelReport {
        try workspace.editor(terms).apply(.pause(workspace.version("1.0.0")), to: "stable")
    }

    private func expectRefusal(
        _ code: FailureCode, _ terms: ChannelTerms? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> UpdateFailure {
        let before = try TreeSnapshot(of: workspace.feed)
        let refused = workspace.refusal { _ = try pause(terms) }
        #expect(refused?.code == code, "\(refused?.message ?? "")", sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [], sourceLocation: sourceLocation)
        return try #require(refused)
    }

    @Test func `warns that an unchanged channel file has expired`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let change = ChannelChange.resume(try workspace.version("1.0.0"))
        #expect(try workspace.editor().apply(change, to: "stable").warnings == [])
        let late = try workspace.editor(workspace.terms(after: 3)).apply(change, to: "stable")
        #expect(late.outcome == .unchanged && late.warnings.map { $0.contains("expired at") } == [true])
    }

    @Test func `signs the next sequence with a new time and expiry`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let report = try pause(workspace.terms(after: 1))
        #expect(report.outcome == .changed)
        #expect(report.previousSequence == 1)
        let document = try workspace.read()
        #expect(document.sequence == 2)
        #expect(document.issuedAt.description == "2030-01-02T00:00:00Z")
        #expect(document.expires.description == "2030-02-01T00:00:00Z")
        #expect(document.releases.map(\.isPaused) == [true])
    }

    @Test func `writes nothing if nothing changes`() throws {
        try workspace.put(workspace.document("1.0.0"))
        #expect(try pause().outcome == .changed)
        let before = try TreeSnapshot(of: workspace.feed)
        #expect(try pause(workspace.terms(after: 1)).outcome == .unchanged)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [])
    }

    @Test func `reads the channel file once for an edit`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let location = HookedLocation(workspace.location)
        var names: [String] = []
        location.beforeRead = { names.append($0) }
        let pause = ChannelChange.pause(try workspace.version("1.0.0"))
        #expect(try ChannelEditor(feed: location, workspace.terms()).apply(pause, to: "stable").outcome == .changed)
        #expect(names.filter { $0 == "channels/stable.json" }.count == 1)
    }

    @Test func `writes nothing in a dry run`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let before = try TreeSnapshot(of: workspace.feed)
        var terms = workspace.terms()
        terms.isDryRun = true
        let report = try pause(terms)
        #expect(report.outcome == .dryRun)
        #expect(report.document.sequence == 2)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [])
    }

    @Test func `never issues a channel file earlier than the previous one`() throws {
        try workspace.put(workspace.document("1.0.0"))
        _ = try pause(workspace.terms(after: 3))
        _ = try workspace.editor(workspace.terms(after: 2)).apply(.resume(workspace.version("1.0.0")), to: "stable")
        #expect(try workspace.read().issuedAt.description == "2030-01-04T00:00:00Z")
    }

    @Test func `keeps unknown members of a channel file`() throws {
        let text = String(decoding: ChannelFormat.payload(try workspace.document("1.0.0")), as: UTF8.self)
        let payload = Array(text.replacing("{\"schema\":1,", with: "{\"schema\":1,\"mirrors\":[\"x\"],").utf8)
        let envelope = SignedEnvelope(payloadType: ChannelFormat.payloadType, payload: payload)
        try workspace.folder.makeFolder("feed/channels")
        try workspace.folder.write(try [workspace.channel].sign(envelope).document, to: "feed/channels/stable.json")
        _ = try pause()
        let bytes = try contents(ofFile: "\(workspace.feed)/channels/stable.json")
        let written = try ChannelFormat.envelope(parsing: bytes)
        #expect(String(decoding: written.payload, as: UTF8.self).contains("\"mirrors\":[\"x\"]"))
    }

    @Test func `rejects a channel file with another signature or none`() throws {
        let unknownKey = try Workspace.signer()
        try workspace.put(workspace.document("1.0.0"), by: [unknownKey])
        let refused = try expectRefusal(.keyUnknown)
        #expect(refused.subject == "channel stable")
        #expect(refused.message.contains("--trust"))
        try workspace.put(workspace.document("1.0.0"), by: [])
        _ = try expectRefusal(.signatureInvalid)
    }

    @Test func `rejects a channel file that changed after it was signed`() throws {
        let document = try workspace.document("1.0.0")
        var envelope = try [workspace.channel].sign(ChannelFormat.envelope(document))
        var other = document
        other.releases[0].rollout = 1
        envelope = SignedEnvelope(
            payloadType: envelope.payloadType, payload: ChannelFormat.payload(other), signatures: envelope.signatures)
        try workspace.folder.makeFolder("feed/channels")
        try workspace.folder.write(envelope.document, to: "feed/channels/stable.json")
        _ = try expectRefusal(.signatureInvalid)
    }

    @Test func `rejects a channel file that only some of the given keys signed`() throws {
        let second = try Workspace.signer()
        try workspace.put(workspace.document("1.0.0"), by: [workspace.channel])
        _ = try expectRefusal(.signatureInvalid, workspace.terms([workspace.channel, second]))
        try workspace.put(workspace.document("1.0.0"), by: [workspace.channel, second])
        #expect(try pause(workspace.terms([workspace.channel, second])).outcome == .changed)
    }

    @Test func `replaces the channel key when the old key is trusted`() throws {
        let next = try Workspace.signer()
        try workspace.put(workspace.document("1.0.0"))
        _ = try expectRefusal(.keyUnknown, workspace.terms([next]))
        var terms = workspace.terms([next])
        terms.trust = .keys(TrustedKeys([workspace.channel.publicKey]))
        #expect(try expectRefusal(.keyUnknown, terms).message.contains("recalls included"))
        terms.devicesTrustNewKey = true
        #expect(try workspace.editor(terms).apply(.renew, to: "stable").document.sequence == 2)
        #expect(try pause(workspace.terms([next])).document.sequence == 3)
    }

    @Test func `refuses an edit if the sequence is not the expected one`() throws {
        try workspace.put(workspace.document("1.0.0"))
        var terms = workspace.terms()
        for wrong in [0, 2] {
            terms.expectedSequence = wrong
            #expect(try expectRefusal(.rollbackAttempt, terms).subject == "channel stable")
        }
        terms.expectedSequence = 1
        #expect(try pause(terms).document.sequence == 2)
    }

    @Test func `refuses an edit from the second in which the feed's trust root expires`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let root = try workspace.trustFile(
            workspace.root([workspace.channel], channel: workspace.channel), signedBy: [workspace.channel])
        try root.write(to: "\(workspace.feed)/\(FeedTrust.fileName)", replacing: false)
        var terms = workspace.terms(after: 365)
        terms.isClockAccepted = true
        #expect(try expectRefusal(.expired, terms).subject == "trust root 1")
        terms = workspace.terms(after: 364)
        terms.isClockAccepted = true
        #expect(try pause(terms).outcome == .changed)
    }

    @Test func `refuses a channel file that would already be expired`() async throws {
        try workspace.put(workspace.document("1.0.0"))
        var terms = workspace.terms()
        terms.lifetime = .seconds(1)
        try await Task.sleep(for: .milliseconds(1_100))
        #expect(try expectRefusal(.expired, terms).message.contains("--expires-in"))
    }

    @Test func `refuses an edit after a jump of the clock unless the clock was checked`() throws {
        try workspace.put(workspace.document("1.0.0"))
        #expect(try expectRefusal(.configInvalid, workspace.terms(after: 40)).message.contains("--accept-clock"))
        var checked = workspace.terms(after: 40)
        checked.isClockAccepted = true
        checked.isDryRun = true
        #expect(try pause(checked).outcome == .dryRun)
        #expect(try pause(workspace.terms(after: 30)).outcome == .changed)
    }

    @Test(
        arguments: [
            (0, 0, nil, .plausible), (0, 1, nil, .plausible), (1, 0, nil, .plausible), (2, 0, nil, .ahead),
            (31, 31, 1, .plausible),
            (32, 32, 1, .jumps(from: 1)), (32, 0, 1, .ahead),
        ] as [(Int, Int, Int?, ClockVerdict)])
    func `judges whether the issue time is plausible`(issued: Int, clock: Int, expires: Int?, verdict: ClockVerdict)
        throws
    {
        func day(_ number: Int) -> Timestamp { workspace.start.adding(.seconds(number * 86_400)) }
        let found = PublisherClock.judge(issuedAt: day(issued), clock: day(clock), before: expires.map(day))
        let expected: PublisherClock =
            switch verdict {
            case .plausible: .plausible
            case .ahead: .ahead
            case .jumps(let from): .jumps(from: day(from))
            }
        #expect(found == expected)
        #expect((found.failure(of: "x", issuedAt: day(issued)) == nil) == (expected == .plausible))
    }

    /// A verdict with days instead of times.
    enum ClockVerdict: Sendable { case plausible, ahead, jumps(from: Int) }

    @Test func `warns about a channel file from the future, and a new key allows the present time again`() throws {
        try workspace.put(workspace.document("1.0.0"))
        var ahead = workspace.terms(after: 400)
        ahead.isClockAccepted = true
        #expect(try pause(ahead).warnings == [])
        let version = try workspace.version("1.0.0")
        let resumed = try workspace.editor(workspace.terms(after: 2)).apply(.resume(version), to: "stable")
        #expect(resumed.warnings.count == 1)
        #expect(resumed.document.issuedAt.description == "2031-02-05T00:00:00Z")
        let next = try Workspace.signer()
        var terms = workspace.terms([next], after: 2)
        terms.trust = .keys(TrustedKeys([workspace.channel.publicKey]))
        terms.devicesTrustNewKey = true
        let renewed = try workspace.editor(terms).apply(.renew, to: "stable")
        #expect(renewed.document.issuedAt.description == "2030-01-03T00:00:00Z")
        #expect(renewed.document.sequence == 4)
    }

    @Test func `refuses a channel file that the feed's trust root does not authorize`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let roots = [try Workspace.signer()]
        let file = try workspace.trustFile(workspace.root(roots), signedBy: roots)
        _ = try TrustPublisher(feed: workspace.location, now: workspace.start).publish(file)
        // Without channel keys, the release keys sign channels.
        #expect(try expectRefusal(.keyUnknown).message.contains("trust root (version 1)"))
        try workspace.put(workspace.document("1.0.0"), by: [workspace.release])
        #expect(try pause(workspace.terms([workspace.release])).outcome == .changed)
    }

    @Test func `fails if the feed does not have the channel`() throws {
        let refused = try expectRefusal(.configInvalid)
        #expect(refused.subject == "channel stable")
        #expect(refused.message.contains("publish --channel stable"))
    }

    @Test func `signs a channel file again only when it is about to expire`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let week = Duration.seconds(7 * 86_400)
        // Nothing is due, but the feed had no manifest.json yet.
        #expect(try workspace.editor().renew("stable", ifExpiresWithin: .seconds(3600)).outcome == .completed)
        #expect(try workspace.editor().renew("stable", ifExpiresWithin: .seconds(3600)).outcome == .unchanged)
        #expect(try workspace.editor().renew("stable", ifExpiresWithin: week).outcome == .changed)
        #expect(try workspace.editor().renew("stable", ifExpiresWithin: week).outcome == .unchanged)
        #expect(try workspace.read().sequence == 2)
    }

    @Test func `refuses to recall a version that was never published`() throws {
        try workspace.put(workspace.document("1.0.0"))
        let refused = workspace.refusal {
            _ = try workspace.editor().apply(.recall(workspace.version("1.0.1"), reason: "typed wrongly"), to: "stable")
        }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.subject == "1.0.1")
    }

    // MARK: Promotion

    @Test func `promotes a release with its signatures`() throws {
        try workspace.put(workspace.document("1.0.0", "1.1.0", name: "beta"))
        var making = workspace.terms()
        making.firstSequence = 1
        let made = try workspace.editor(making).promote(
            workspace.version("1.1.0"), from: "beta", to: "stable", rollout: 10)
        #expect(made.previousSequence == nil)
        let stable = try workspace.read("stable")
        #expect(stable.sequence == 1)
        #expect(stable.appId == "com.example.kiosk")
        #expect(stable.releases.map(\.version.description) == ["1.1.0"])
        #expect(stable.releases.map(\.rollout) == [10])
        #expect(stable.releases[0].manifest.document == (try workspace.read("beta").releases[1].manifest.document))
        #expect(try workspace.read("beta").sequence == 1)
        let again = try workspace.editor().promote(workspace.version("1.1.0"), from: "beta", to: "stable", rollout: nil)
        #expect(again.outcome == .unchanged)
    }

    @Test func `refuses to promote a recalled release`() throws {
        var beta = try workspace.document("1.0.0", "1.1.0", name: "beta")
        _ = try ChannelChange.recall(workspace.version("1.1.0"), reason: "bad").apply(to: &beta, at: workspace.start)
        try workspace.put(beta)
        let refused = workspace.refusal {
            _ = try workspace.editor().promote(workspace.version("1.1.0"), from: "beta", to: "stable", rollout: nil)
        }
        #expect(refused?.code == .versionBlocked)
        #expect(refused?.subject == "1.1.0")
        #expect(try TreeSnapshot(of: workspace.feed).paths == ["channels", "channels/beta.json"])
    }

    @Test func `rejects a channel name that cannot be a file name`() throws {
        for name in ["", "../x", "a/b", "Stable", ".hidden", "https://updates.example.com/channels/stable.json"] {
            let refused = workspace.refusal { _ = try workspace.read(name) }
            #expect(refused?.code == .usage, "\(name)")
        }
    }
}
