import ArchiveSource
import BundleCore
import BundleDisk
import BundleSigning
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundlePublish

@Suite("HoldEditor", .ownThread) struct HoldEditorTests {
    private let workspace: Workspace
    private let guardian: Signer
    private let held: SemanticVersion

    /// A feed with a guard in its trust root, 1.0.0 for every device, and 1.1.0 with a ramp of 1%, 10% and 100%, a
    /// day apart.
    init() throws {
        workspace = try Workspace()
        guardian = try Workspace.signer()
        held = try workspace.version("1.1.0")
        try putRoot(channel: workspace.channel)
        try workspace.put(try workspace.document("1.0.0", "1.1.0"))
        _ = try workspace.editor().apply(
            .ramp(held, steps: [10, 100, 1000], every: 86_400, from: nil), to: "stable")
    }

    private func putRoot(channel: Signer) throws {
        var root = try workspace.root([try Workspace.signer()], channel: channel)
        _ = try TrustEdit.add(guardian.publicKey, to: .guard, threshold: nil, notAfter: nil).apply(to: &root)
        root.expires = workspace.start.adding(.seconds(365 * 86_400))
        try workspace.folder.write(TrustRootFormat.envelope(root).document, to: "feed/trust.json")
    }

    private func day(_ number: Int) -> Timestamp { workspace.start.adding(.seconds(number * 86_400)) }

    private func hold(_ version: SemanticVersion, at day: Int) throws -> HoldDocument {
        try HoldEditor(workspace.location, terms: workspace.terms([guardian], after: day)).hold(
            version, of: "stable", reason: "too many")
    }

    private func editor(at day: Int) -> ChannelEditor { workspace.editor(workspace.terms(after: day)) }

    /// Returns 1.1.0 as a reader of the feed sees it on `day`.
    private func release(on day: Int) throws -> ChannelDocument.Release {
        let document = try ChannelEditor.read("stable", in: workspace.location, trust: nil, clock: self.day(day))
        return document.releases[try document.index(of: held)]
    }

    private func isPaused(_ report: ChannelReport) throws -> Bool {
        report.document.releases[try report.document.index(of: held)].isPaused
    }

    @Test func `holds a ramp from the signing of the hold, regardless of later channel files`() throws {
        _ = try hold(held, at: 1)
        for day in [1, 2, 4, 7] { #expect(try release(on: day).share(at: self.day(day)) == 100) }
        // A week later the hold has expired.
        #expect(try release(on: 8).share(at: day(8)) == 1000)
        let resumed = try editor(at: 4).apply(.resume(held), to: "stable")
        #expect(
            resumed.changes == [
                "1.1.0: paused at 10% of the devices, no further device takes it, as the guard holds it",
                "1.1.0: no longer paused, 100% from 2030-01-06T00:00:00Z",
            ])
        #expect(try release(on: 4).share(at: day(4)) == 100)
        #expect(try release(on: 5).share(at: day(5)) == 1000)
    }

    @Test func `reports a hold of later sequences on resume, and ignores it far above the channel's sequence`() throws {
        func put(_ sequence: Int, issued: Int = 1) throws {
            let document = HoldDocument(
                appId: "com.example.kiosk", channel: "stable", sequence: sequence, issuedAt: day(issued),
                releases: [held],
                reason: "stolen")
            let bytes = try [guardian].sign(HoldFormat.envelope(document)).document
            try workspace.folder.write(bytes, to: "feed/channels/stable.hold.json")
        }
        let sequence = try workspace.read().sequence
        try put(sequence + 5)
        let resumed = try editor(at: 2).apply(.resume(held), to: "stable")
        #expect(resumed.warnings.contains { $0.contains("a guard's hold still blocks 1.1.0 on further devices") })
        #expect(try editor(at: 2).apply(.resume(held), to: "stable").warnings.count == 1)
        try put(sequence + 3 + HoldRule.longestLead)
        #expect(try editor(at: 2).apply(.resume(held), to: "stable").warnings.isEmpty)
        #expect(try release(on: 2).isPaused == false)
        try put(sequence + 3, issued: 400)
        #expect(try release(on: 2).isPaused == false)
    }

    @Test func `renews only a hold that expires soon`() throws {
        _ = try hold(held, at: 1)
        func isDue(_ day: Int) throws -> Bool {
            try HoldEditor(workspace.location, terms: workspace.terms([guardian], after: day)).isDue(held, of: "stable")
        }
        #expect(try [isDue(1), isDue(5), isDue(9)] == [false, true, false])
        _ = try hold(held, at: 5)
        #expect(try !isDue(5))
    }

    @Test func `keeps the ramp position when a hold is signed again`() throws {
        _ = try hold(held, at: 1)
        #expect(try isPaused(editor(at: 4).apply(.renew, to: "stable")))
        #expect(try release(on: 9).ramp?.heldAt == day(1))
        _ = try editor(at: 9).apply(.resume(held), to: "stable")
        #expect(try release(on: 9).share(at: day(9)) == 100)
    }

    @Test func `starts each release's hold at its own time, and not before the channel file`() throws {
        _ = try editor(at: 0).apply(.poll(nil), to: "stable")
        #expect(try hold(workspace.version("1.0.0"), at: 0).since == [day(0)])
        // The ramp continued in the meantime: its devices keep the release.
        let both = try hold(held, at: 1)
        #expect(both.since == [day(0), day(1)] && both.releases.count == 2)
        #expect(try hold(held, at: 2).since == [day(0), day(1)])
        _ = try editor(at: 3).apply(.renew, to: "stable")
        #expect(try release(on: 9).ramp?.heldAt == day(1))
        #expect(try release(on: 9).share(at: day(9)) == 100)
        let document = try workspace.read()
        #expect(document.held(by: .holds([held], since: [day(-9)])).releases[1].ramp?.heldAt == day(1))
    }

    @Test func `promotes a held release as paused`() throws {
        _ = try editor(at: 0).apply(.poll(nil), to: "stable")
        _ = try hold(held, at: 1)
        var beta = workspace.terms(after: 1)
        beta.firstSequence = 1
        let promoted = try workspace.editor(beta).promote(held, from: "stable", to: "beta", rollout: nil)
        #expect(promoted.document.releases[try promoted.document.index(of: held)].isPaused)
    }

    @Test func `keeps a release paused when an older channel file is restored by an attacker`() throws {
        _ = try hold(held, at: 1)
        #expect(unlink("\(workspace.feed)/channels/stable.json") == 0)
        let restored = try editor(at: 2).restore("stable", to: nil)
        #expect(try isPaused(restored))
        #expect(restored.changes.last?.hasSuffix("as the guard holds it") == true)
        #expect(try release(on: 2).ramp?.heldAt == day(1))
    }

    @Test func `keeps a release paused after a restore and after a change of another release`() throws {
        let sequence = try workspace.read().sequence
        _ = try hold(held, at: 1)
        let restored = try editor(at: 2).restore("stable", to: sequence)
        #expect(try isPaused(restored))
        #expect(!restored.changes.contains { $0.contains("no longer paused") })
        _ = try editor(at: 2).apply(.resume(held), to: "stable")
        _ = try hold(held, at: 2)
        #expect(try isPaused(editor(at: 3).apply(.pause(workspace.version("1.0.0")), to: "stable")))
    }

    @Test func `applies a hold that appears while a token signs the channel`() throws {
        let pair = try PrivateKey.generate(.ed25519)
        let key = workspace.folder.file("token.pem")
        try File.write(try pair.pem(passphrase: nil), to: key, mode: 0o600)
        let quick = Signer(pair)
        try putRoot(channel: quick)
        try workspace.put(try workspace.read(), by: [quick])
        let (hold, aside) = ("\(workspace.feed)/\(HoldEditor.path(of: "stable"))", workspace.folder.file("aside"))
        let slow = Signer(
            SigningCommand(
                "mv \(aside) \(hold) 2>&-; openssl pkeyutl -sign -rawin -inkey \(key) -in /dev/stdin"),
            publicKey: quick.publicKey)
        _ = try self.hold(held, at: 1)
        #expect(rename(hold, aside) == 0)
        let report = try workspace.editor(workspace.terms([slow], after: 1)).apply(.renew, to: "stable")
        #expect(try isPaused(report))
    }

    @Test func `refuses signers whose holds devices would ignore`() throws {
        try HoldEditor(workspace.location, terms: workspace.terms([guardian])).requireSigners(of: "stable")
        try workspace.editor().requireSigners(of: "stable")
        let writer = HoldEditor(workspace.location, terms: workspace.terms([workspace.channel]))
        #expect(workspace.refusal { try writer.requireSigners(of: "stable") }?.code == .keyUnknown)
        var terms = workspace.terms([guardian])
        #expect(workspace.refusal { try workspace.editor(terms).requireSigners(of: "stable") }?.code == .keyUnknown)
        // The channel file is trusted, but the trust root names another guard key.
        terms.trust = .keys(TrustedKeys([workspace.channel.publicKey]))
        #expect(workspace.refusal { try workspace.editor(terms).requireSigners(of: "stable") }?.code == .keyUnknown)
        #expect(workspace.refusal { try workspace.editor().requireSigners(of: "beta") }?.code == .configInvalid)
    }

    @Test func `states the audience of a held release for groups`() throws {
        #expect(try release(on: 0).audience(at: day(0)) == "1% of the devices")
        #expect(try release(on: 1).audience(at: day(1)) == "10% of the devices")
        _ = try editor(at: 0).apply(.groups(held, ["qa"], only: false), to: "stable")
        #expect(try release(on: 1).audience(at: day(1)) == "the group qa first, and 10% of the devices")
        _ = try editor(at: 0).apply(.groups(held, ["eu", "qa"], only: true), to: "stable")
        #expect(try release(on: 1).audience(at: day(1)) == "the groups eu, qa alone")
    }
}
