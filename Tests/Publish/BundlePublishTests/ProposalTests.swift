import BundleFormats
import BundleSigning
import BundleTesting
import BundleValues
import Testing

@testable import BundlePublish

/// Changes that several people must sign.
@Suite("ChannelProposal") struct ProposalTests {
    private let workspace: Workspace
    private let alice: Signer
    private let bob: Signer
    private let carol: Signer
    private let guardian: Signer

    init() throws {
        workspace = try Workspace()
        (alice, bob) = (try Workspace.signer(), try Workspace.signer())
        (carol, guardian) = (try Workspace.signer(), try Workspace.signer())
        try publishRoot(threshold: 2)
        try workspace.put(workspace.document("1.0.0"), by: [alice, bob])
    }

    private func root(threshold: Int) throws -> TrustFile {
        var root = try workspace.root([workspace.release], channel: alice)
        for signer in [bob, carol] {
            _ = try TrustEdit.add(signer.publicKey, to: .channel, threshold: threshold, notAfter: nil).apply(to: &root)
        }
        _ = try TrustEdit.add(guardian.publicKey, to: .guard, threshold: nil, notAfter: nil).apply(to: &root)
        return try workspace.trustFile(root, signedBy: [workspace.release])
    }

    private func publishRoot(threshold: Int) throws {
        try root(threshold: threshold).write(to: "\(workspace.feed)/\(FeedTrust.fileName)", replacing: true)
    }

    /// Returns the terms of a person who trusts the root of the feed.
    private func terms(_ signers: [Signer], after days: Int = 0) throws -> ChannelTerms {
        var terms = workspace.terms(signers, after: days)
        let bytes = try contents(ofFile: "\(workspace.feed)/\(FeedTrust.fileName)")
        terms.trust = .root(try TrustChain.start(try TrustRootFormat.parse(bytes)))
        return terms
    }

    @discardableResult
    private func propose(
        _ change: ChannelChange? = nil, by signer: Signer? = nil, after days: Int = 0
    ) throws -> ChannelReport {
        var terms = try terms([signer ?? alice], after: days)
        terms.proposes = true
        return try workspace.editor(terms).apply(change ?? .pause(workspace.version("1.0.0")), to: "stable")
    }

    @discardableResult
    private func approve(_ id: String, by signers: Signer..., after days: Int = 0) throws -> ChannelReport {
        try workspace.editor(terms(signers, after: days)).approve(id, of: "stable")
    }

    private func proposals() throws -> [ProposalReading] {
        try ProposalReading.all(of: nil, in: workspace.location, trust: nil, clock: workspace.start)
    }

    /// Expects that an approval by `signer` is refused with `code` and changes nothing. Returns the message.
    private func expectRefusal(
        _ code: FailureCode, of id: String, by signer: Signer? = nil, after days: Int = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> String {
        let before = try TreeSnapshot(of: workspace.feed)
        let refused = workspace.refusal { _ = try approve(id, by: signer ?? bob, after: days) }
        #expect(refused?.code == code, "\(refused?.message ?? "")", sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [], sourceLocation: sourceLocation)
        return refused?.message ?? ""
    }

    private func path(_ id: String, channel: String = "stable") -> String { "proposals/\(channel)/\(id).json" }

    /// Replaces the file of a proposal by what `edit` makes of it, under `name` or its own name.
    private func rewrite(_ id: String, as name: String? = nil, edit: (inout SignedEnvelope) throws -> Void) throws {
        let file = "\(workspace.feed)/\(path(id))"
        var envelope = try ChannelFormat.envelope(parsing: contents(ofFile: file))
        try edit(&envelope)
        try workspace.folder.write(envelope.document, to: "feed/\(name ?? path(id))")
    }

    @Test func `a second person publishes what the first one proposed`() throws {
        let file = try contents(ofFile: "\(workspace.feed)/channels/stable.json")
        let proposed = try propose()
        #expect(proposed.outcome == .proposed && proposed.changes.count == 1)
        let id = try #require(proposed.proposal?.id)
        #expect(proposed.proposal?.missing == 1)
        #expect(try contents(ofFile: "\(workspace.feed)/channels/stable.json") == file)
        #expect(try proposals().map(\.keyIds) == [[alice.publicKey.id]])
        let report = try approve(id, by: bob)
        #expect(report.outcome == .changed && report.changes == ["1.0.0: paused"])
        #expect(report.proposal?.keyIds == [alice.publicKey.id, bob.publicKey.id])
        #expect(try workspace.read().sequence == 2)
        #expect(try workspace.read().releases.map(\.isPaused) == [true])
        #expect(try proposals().isEmpty)
        #expect(try ChannelHistory.sequences(of: "stable", in: workspace.location) == [2])
    }

    @Test func `the bytes that the first person signed are published`() throws {
        let id = try #require(try propose().proposal?.id)
        let payload = try ChannelFormat.envelope(parsing: contents(ofFile: "\(workspace.feed)/\(path(id))")).payload
        try approve(id, by: bob, after: 2)
        let bytes = try contents(ofFile: "\(workspace.feed)/channels/stable.json")
        #expect(try ChannelFormat.envelope(parsing: bytes).payload == payload)
    }

    @Test func `one person can neither publish nor approve twice`() throws {
        let refused = workspace.refusal {
            _ = try workspace.editor(terms([alice])).apply(.pause(workspace.version("1.0.0")), to: "stable")
        }
        #expect(refused?.code == .signatureInvalid && refused?.message.contains("--propose") == true)
        let id = try #require(try propose().proposal?.id)
        #expect(try expectRefusal(.configInvalid, of: id, by: alice).contains("Another person must approve it"))
        #expect(try expectRefusal(.keyUnknown, of: id, by: workspace.release).contains("no channel key"))
    }

    @Test func `keys that are enough cannot propose`() throws {
        var terms = try terms([alice, bob])
        terms.proposes = true
        let refused = workspace.refusal {
            _ = try workspace.editor(terms).apply(.pause(workspace.version("1.0.0")), to: "stable")
        }
        #expect(refused?.code == .usage && refused?.message.contains("Leave out --propose") == true)
        #expect(try proposals().isEmpty)
    }

    @Test func `a change that the channel has already is not proposed`() throws {
        #expect(try propose(.resume(workspace.version("1.0.0"))).outcome == .unchanged)
        #expect(try proposals().isEmpty)
    }

    @Test func `a dry run writes no proposal and no approval`() throws {
        var terms = try terms([alice])
        (terms.proposes, terms.isDryRun) = (true, true)
        let report = try workspace.editor(terms).apply(.pause(workspace.version("1.0.0")), to: "stable")
        #expect(report.outcome == .dryRun && report.proposal?.missing == 1)
        #expect(try proposals().isEmpty)
        let id = try #require(try propose().proposal?.id)
        var asked = try self.terms([bob])
        asked.isDryRun = true
        #expect(try workspace.editor(asked).approve(id, of: "stable").outcome == .dryRun)
        #expect(try workspace.read().sequence == 1)
        #expect(try proposals().count == 1)
    }

    @Test func `a third signature publishes where three must sign`() throws {
        try publishRoot(threshold: 3)
        try workspace.put(workspace.document("1.0.0"), by: [alice, bob, carol])
        let id = try #require(try propose().proposal?.id)
        let second = try approve(id, by: bob)
        #expect(second.outcome == .proposed && second.proposal?.missing == 1)
        #expect(try workspace.read().sequence == 1)
        #expect(try expectRefusal(.configInvalid, of: id, by: bob).contains("already"))
        #expect(try approve(id, by: carol).outcome == .changed)
        #expect(try workspace.read().sequence == 2)
    }

    @Test func `people take turns without a key that signs each file`() throws {
        let first = try #require(propose(by: alice).proposal?.id)
        // A device may trust only the key of Bob, who signed the present file.
        #expect(try expectRefusal(.keyUnknown, of: first, by: carol).contains("--devices-trust-new-key"))
        for (signer, change, proposer) in [
            (carol, .pause(try workspace.version("1.0.0")), alice),
            (alice, ChannelChange.resume(try workspace.version("1.0.0")), bob),
        ] {
            let id = try #require(try propose(change, by: proposer).proposal?.id)
            var terms = try terms([signer])
            terms.devicesTrustNewKey = true
            _ = try workspace.editor(terms).approve(id, of: "stable")
        }
        #expect(try workspace.read().sequence == 3)
    }

    // MARK: Refused proposals

    @Test func `a proposal onto an old sequence is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        _ = try workspace.editor(terms([alice, bob])).apply(.renew, to: "stable")
        #expect(try expectRefusal(.proposalOutdated, of: id).contains("channel stable has sequence 2"))
        #expect(try proposals().map { $0.refusal?.code } == [.proposalOutdated])
    }

    @Test func `a published proposal that comes back is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        let bytes = try contents(ofFile: "\(workspace.feed)/\(path(id))")
        try approve(id, by: bob)
        #expect(try expectRefusal(.proposalOutdated, of: id, by: carol).contains("was published as sequence 2"))
        try workspace.folder.makeFolder("feed/proposals/stable")
        try workspace.folder.write(bytes, to: "feed/\(path(id))")
        #expect(try expectRefusal(.proposalOutdated, of: id, by: carol).contains("was published as sequence 2"))
        #expect(try proposals().map { $0.refusal?.code } == [.proposalOutdated])
    }

    @Test func `a proposal of another feed is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        // The same keys and sequence, and another file.
        try workspace.put(workspace.document("1.0.0", "1.1.0"), by: [alice, bob])
        #expect(try expectRefusal(.proposalForeign, of: id).contains("was made for another feed"))
        #expect(try proposals().map { $0.refusal?.code } == [.proposalForeign])
    }

    @Test func `a proposal of another channel is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        var beta = try workspace.document("1.0.0", name: "beta")
        beta.sequence = 1
        try workspace.put(beta, by: [alice, bob])
        try workspace.folder.makeFolder("feed/proposals/beta")
        try rewrite(id, as: path(id, channel: "beta")) { _ in }
        let refused = workspace.refusal { _ = try workspace.editor(terms([bob])).approve(id, of: "beta") }
        #expect(refused?.code == .proposalForeign && refused?.message.contains("not for beta") == true)
        #expect(try proposals().count { $0.refusal?.code == .proposalForeign } == 1)
    }

    @Test func `a proposal without a key of the trust root is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        let stranger = try Workspace.signer()
        try rewrite(id) { $0.signatures = [try stranger.signature(of: $0)] }
        #expect(try expectRefusal(.proposalForeign, of: id).contains("no signature of a channel key of trust root 1"))
    }

    @Test func `a damaged proposal is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        try rewrite(id) { envelope in
            var bytes = envelope.signatures[0].bytes
            bytes[0] ^= 1
            envelope.signatures = [.init(keyId: envelope.signatures[0].keyId, bytes: bytes)]
        }
        _ = try expectRefusal(.signatureInvalid, of: id)
        var other = try workspace.document("1.0.0", "9.9.9")
        other.sequence = 2
        try rewrite(id) {
            $0 = SignedEnvelope(
                payloadType: $0.payloadType, payload: ChannelFormat.payload(other), signatures: $0.signatures)
        }
        #expect(try expectRefusal(.manifestMalformed, of: id).contains("other content than its name states"))
        try workspace.folder.write(Array("{".utf8), to: "feed/\(path(id))")
        #expect(try expectRefusal(.manifestMalformed, of: id).contains("is damaged"))
        #expect(try proposals().map { $0.refusal?.code } == [.manifestMalformed])
    }

    @Test func `signatures of unknown keys are dropped from an approved file`() throws {
        let id = try #require(try propose().proposal?.id)
        let stranger = try Workspace.signer()
        try rewrite(id) { $0.signatures.append(try stranger.signature(of: $0)) }
        try approve(id, by: bob)
        let bytes = try contents(ofFile: "\(workspace.feed)/channels/stable.json")
        let keyIds = try ChannelFormat.envelope(parsing: bytes).signatures.map(\.keyId)
        #expect(keyIds == [alice.publicKey.id, bob.publicKey.id])
    }

    @Test func `a proposal that is older than a hold cannot end it`() throws {
        let id = try #require(try propose(.renew).proposal?.id)
        _ = try HoldEditor(workspace.location, terms: workspace.terms([guardian], after: 1)).hold(
            workspace.version("1.0.0"), of: "stable", reason: "fails")
        #expect(try expectRefusal(.proposalOutdated, of: id, after: 1).contains("would end the hold"))
    }

    @Test func `an unknown or ambiguous ID is refused`() throws {
        #expect(try expectRefusal(.usage, of: "2-000000000000").contains("has no proposal"))
        try propose(by: alice)
        try propose(by: bob, after: 1)
        #expect(
            try expectRefusal(.usage, of: "2-", by: carol).contains("Several proposals of channel stable begin with 2-")
        )
    }

    @Test func `only the whole ID approves, because another proposal can have the same start`() throws {
        let report = try #require(try propose().proposal)
        #expect(try expectRefusal(.usage, of: report.shortID).contains("Give the whole ID"))
        var asked = try terms([bob])
        asked.isDryRun = true
        #expect(try workspace.editor(asked).approve(report.shortID, of: "stable").proposal?.id == report.id)
    }

    @Test func `the trust root of the approver decides, not that of the feed`() throws {
        let mallory = try Workspace.signer()
        let terms = try terms([bob])
        let id = try #require(try propose().proposal?.id)
        try rewrite(id) { $0.signatures = [try mallory.signature(of: $0)] }
        var forged = try workspace.root([workspace.release], channel: mallory)
        _ = try TrustEdit.add(bob.publicKey, to: .channel, threshold: 2, notAfter: nil).apply(to: &forged)
        try workspace.trustFile(forged, signedBy: [workspace.release]).write(
            to: "\(workspace.feed)/\(FeedTrust.fileName)", replacing: true)
        let refused = workspace.refusal { _ = try workspace.editor(terms).approve(id, of: "stable") }
        #expect(refused?.code == .proposalForeign, "\(refused?.message ?? "")")
        var unpinned = terms
        unpinned.trust = nil
        let unnamed = workspace.refusal { _ = try workspace.editor(unpinned).approve(id, of: "stable") }
        #expect(unnamed?.code == .configInvalid && unnamed?.message.contains("needs --trust") == true)
    }

    @Test func `a proposal whose sequence jumps is refused`() throws {
        let id = try #require(try propose().proposal?.id)
        let envelope = try ChannelFormat.envelope(parsing: contents(ofFile: "\(workspace.feed)/\(path(id))"))
        var document = try ChannelFormat.parse(envelope).claims
        document.sequence = 1 << 40
        let jumping = try [alice].sign(ChannelFormat.envelope(document))
        let jumped = "\(document.sequence)-\(try SHA256Digest.of(jumping.payload).hex)"
        try workspace.folder.write(jumping.document, to: "feed/\(path(jumped))")
        #expect(try expectRefusal(.manifestMalformed, of: jumped).contains("\(1 << 40)"))
    }

    @Test func `a signature without the ID of its key does not count`() throws {
        let id = try #require(try propose().proposal?.id)
        try rewrite(id) { envelope in
            envelope.signatures = envelope.signatures.map { .init(keyId: nil, bytes: $0.bytes) }
        }
        _ = try expectRefusal(.proposalForeign, of: id)
    }

    @Test func `a restore of a lost channel file can be approved`() throws {
        try approve(#require(propose().proposal?.id), by: bob)
        try workspace.location.remove("channels/stable.json")
        var terms = try terms([alice])
        terms.proposes = true
        let report = try workspace.editor(terms).restore("stable", to: nil)
        #expect(report.outcome == .proposed)
        let id = try #require(report.proposal?.id)
        #expect(try proposals().map { $0.refusal?.code } == [nil])
        #expect(try approve(id, by: bob).outcome == .changed)
        #expect(try workspace.read().sequence == 3)
    }

    @Test func `a file that is too large hides no other proposal`() throws {
        let id = try #require(try propose().proposal?.id)
        let large = "9-\(String(repeating: "a", count: 64))"
        try workspace.folder.write(
            [UInt8](repeating: 0x20, count: ChannelFormat.maximumBytes + 1), to: "feed/\(path(large))")
        let found = try proposals()
        #expect(found.map(\.id) == [large, id] && found[0].refusal != nil && found[1].refusal == nil)
        #expect(try approve(id, by: bob).outcome == .changed)
    }

    @Test func `a ramp that began with the proposal is a warning`() throws {
        let version = try workspace.version("1.0.0")
        let ramp = ChannelChange.ramp(version, steps: [10, 500, 1000], every: 86_400, from: nil)
        let id = try #require(try propose(ramp).proposal?.id)
        let report = try approve(id, by: bob, after: 1)
        #expect(report.warnings.contains { $0.contains("so it starts at 50%") }, "\(report.warnings)")
    }

    @Test func `a proposal that states a future time is refused`() throws {
        var document = try workspace.document("1.0.0")
        document.sequence = 2
        document.issuedAt = workspace.start.adding(.seconds(400 * 86_400))
        document.expires = document.issuedAt.adding(.seconds(86_400))
        let base = try ChannelFormat.envelope(parsing: contents(ofFile: "\(workspace.feed)/channels/stable.json"))
        document.previous = try SHA256Digest.of(base.payload)
        let envelope = try [alice].sign(ChannelFormat.envelope(document))
        let id = "2-\(try SHA256Digest.of(envelope.payload).hex)"
        try workspace.folder.makeFolder("feed/proposals/stable")
        try workspace.folder.write(envelope.document, to: "feed/\(path(id))")
        #expect(try expectRefusal(.configInvalid, of: id).contains("in the future"))
    }

    @Test func `a proposal that is ahead of the approver's clock is refused, because it could end a later hold`() throws
    {
        let id = try #require(try propose(.renew, after: 1).proposal?.id)
        #expect(try expectRefusal(.configInvalid, of: id).contains("Correct the wrong clock"))
        try approve(id, by: bob, after: 1)
    }

    // MARK: Time

    @Test func `feed prune removes proposals after 7 days and keeps the releases of younger ones`() throws {
        let id = try #require(try propose().proposal?.id)
        func sweep(after days: Int) throws -> SweepPlan {
            var terms = FeedSweep.Terms()
            terms.isDryRun = false
            let clock = Timestamp.now.adding(.seconds(days * 86_400 - 60))
            return try FeedSweep(workspace.location, terms: terms, clock: clock).run(FeedWait())
        }
        #expect(try sweep(after: 7).removed.isEmpty)
        #expect(try proposals().count == 1)
        let removed = try sweep(after: 8).removed
        #expect(removed.map(\.path) == [path(id)] && removed.map(\.reason) == [.waited])
        #expect(try proposals().isEmpty)
    }

    @Test func `a proposal keeps the release that only it offers`() throws {
        for version in ["1.0.0", "1.1.0", "1.2.0"] {
            let manifest = JSONWriter.bytes(of: try workspace.manifest(version).document)
            _ = try workspace.location.create("releases/v\(version)/manifest.json", with: .bytes(manifest))
        }
        try workspace.put(workspace.document("1.0.0", "1.1.0", name: "beta"), by: [alice, bob])
        var terms = try terms([alice])
        terms.proposes = true
        _ = try workspace.editor(terms).promote(workspace.version("1.1.0"), from: "beta", to: "stable", rollout: nil)
        try workspace.location.remove("channels/beta.json")
        var sweep = FeedSweep.Terms()
        (sweep.keep, sweep.leastAge, sweep.isDryRun) = (1, .seconds(-600), true)
        let plan = try FeedSweep(workspace.location, terms: sweep, clock: .now).run(FeedWait())
        let kept = try #require(plan.kept.first { "\($0.version)" == "1.1.0" })
        #expect(kept.reasons.contains(.proposal("stable", 2)), "\(kept.reasons)")
    }
}
