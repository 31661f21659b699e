import BundleFormats
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@testable import BundlePublish

@Suite("TrustFile") struct TrustFileTests {
    private let workspace: Workspace
    private let roots: [Signer]

    init() throws {
        workspace = try Workspace()
        roots = try (0..<3).map { _ in try Workspace.signer() }
    }

    private func first(signedBy signers: [Signer] = []) throws -> TrustFile {
        try workspace.trustFile(workspace.root(roots, threshold: 2, channel: workspace.channel), signedBy: signers)
    }

    private func edited(_ file: TrustFile, _ edit: TrustEdit) throws -> TrustFile {
        try file.editing(edit, issued: DraftTime(workspace.start), lifetime: TrustFile.standardLifetime).draft
    }

    @Test func `completes a draft with the required number of different root keys`() throws {
        var file = try first()
        #expect(!file.isComplete)
        #expect(try file.sign(roots[0]))
        #expect(try !file.sign(roots[0]))
        #expect(!file.isComplete)
        #expect(try file.sign(workspace.release))
        #expect(!file.isComplete, "a release key is no root key")
        #expect(try file.sign(roots[2]))
        #expect(file.isComplete)
        #expect(file.signatures.map(\.isRootKey) == [true, false, true])
        #expect(file.signatures.map(\.isValid) == [true, true, true])
        #expect(file.claims.expires.description == "2031-01-01T00:00:00Z")
    }

    @Test func `increments the version after a complete root only`() throws {
        let complete = try first(signedBy: Array(roots[..<2]))
        let other = try Workspace.signer()
        let edit = TrustEdit.add(other.publicKey, to: .release, threshold: nil, notAfter: nil)
        let draft = try edited(complete, edit)
        #expect(draft.claims.version == 2)
        #expect(draft.signatures.isEmpty)
        #expect(draft.claims.roles[.release]?.keyIds.count == 2)
        let more = try edited(
            draft, .remove(workspace.release.publicKey.id, from: .release, revoked: false, threshold: nil))
        #expect(more.claims.version == 2)
        #expect(
            try edited(complete, .add(workspace.release.publicKey, to: .release, threshold: nil, notAfter: nil))
                .isComplete)
        #expect(try complete.renewing(issued: DraftTime(workspace.start), lifetime: .seconds(60)).claims.version == 2)
    }

    @Test func `reads back a written draft`() throws {
        let file = try edited(
            first(signedBy: roots),
            .add(workspace.channel.publicKey, to: .release, threshold: 2, notAfter: workspace.start))
        let path = workspace.folder.file("trust.json")
        try file.write(to: path, replacing: false)
        #expect(try TrustFile.read(path).claims == file.claims)
        #expect(workspace.refusal { try file.write(to: path, replacing: false) }?.code == .configInvalid)
        try file.write(to: path, replacing: true)
    }

    @Test func `replaces a key in every role and revokes it`() throws {
        let (old, new) = (workspace.release.publicKey.id, try Workspace.signer().publicKey)
        let shared = try edited(first(), .add(workspace.release.publicKey, to: .root, threshold: nil, notAfter: nil))
        let root = try edited(shared, .replace(old, by: new, revoked: true)).claims
        #expect(root.roles[.release]?.keyIds == [new.id])
        #expect(root.roles[.root]?.keyIds.contains(new.id) == true)
        #expect(root.roles(of: old).isEmpty)
        #expect(!root.keys.contains { $0.publicKey.id == old })
        #expect(root.revoked == [old])
    }

    @Test func `removes the channel role with the last channel key`() throws {
        let root = try edited(
            first(), .remove(workspace.channel.publicKey.id, from: nil, revoked: false, threshold: nil)
        ).claims
        #expect(root.roles[.channel] == nil)
        #expect(root.trusted(for: .channel, at: nil).keys == [workspace.release.publicKey])
    }

    @Test func `refuses a draft that cannot be satisfied`() throws {
        let file = try first()
        let removed = workspace.refusal {
            _ = try edited(
                file, .remove(workspace.release.publicKey.id, from: .release, revoked: false, threshold: nil))
        }
        #expect(removed?.code == .configInvalid)
        #expect(removed?.subject == "release")
        let raised = workspace.refusal {
            _ = try edited(file, .add(roots[0].publicKey, to: .root, threshold: 4, notAfter: nil))
        }
        #expect(raised?.code == .configInvalid)
        #expect(raised?.subject == "root")
        let fewer = try edited(file, .remove(roots[0].publicKey.id, from: .root, revoked: true, threshold: nil))
        #expect(fewer.claims.roles[.root]?.threshold == 2)
        #expect(
            workspace.refusal {
                _ = try edited(fewer, .remove(roots[1].publicKey.id, from: .root, revoked: true, threshold: nil))
            }?
            .code == .configInvalid)
        #expect(
            try edited(fewer, .remove(roots[1].publicKey.id, from: .root, revoked: true, threshold: 1)).claims.roles[
                .root]?
                .threshold == 1)
    }

    @Test func `refuses unknown and revoked keys`() throws {
        let unknownKey = try Workspace.signer().publicKey
        let file = try first()
        for edit in [
            TrustEdit.remove(unknownKey.id, from: nil, revoked: false, threshold: nil),
            .remove(roots[0].publicKey.id, from: .release, revoked: false, threshold: nil),
            .replace(unknownKey.id, by: roots[0].publicKey, revoked: false),
        ] {
            #expect(workspace.refusal { _ = try edited(file, edit) }?.code == .configInvalid)
        }
        let revoked = try edited(file, .remove(roots[0].publicKey.id, from: nil, revoked: true, threshold: nil))
        let refused = workspace.refusal {
            _ = try edited(revoked, .add(roots[0].publicKey, to: .root, threshold: nil, notAfter: nil))
        }
        #expect(refused?.subject == roots[0].publicKey.id)
    }

    @Test func `reports the path of a file that is not a trust root`() throws {
        let path = try workspace.folder.write(Array("{}".utf8), to: "x.json")
        let refused = workspace.refusal { _ = try TrustFile.read(path) }
        #expect(refused?.code == .manifestMalformed)
        #expect(refused?.subject == path)
    }
}

@Suite("TrustPublisher") struct TrustPublisherTests {
    private let workspace: Workspace
    private let roots: [Signer]

    init() throws {
        workspace = try Workspace()
        roots = try (0..<3).map { _ in try Workspace.signer() }
    }

    private func publish(_ file: TrustFile) throws -> TrustPublisher.PublishedRoot {
        try TrustPublisher(feed: workspace.location, now: workspace.start).publish(file)
    }

    private func first() throws -> TrustFile {
        try workspace.trustFile(workspace.root(roots, threshold: 2), signedBy: Array(roots[..<2]))
    }

    private func next(_ file: TrustFile, signedBy signers: [Signer], _ edit: TrustEdit? = nil) throws -> TrustFile {
        let edit = try edit ?? .add(Workspace.signer().publicKey, to: .release, threshold: nil, notAfter: nil)
        var draft = try file.editing(edit, issued: DraftTime(workspace.start), lifetime: TrustFile.standardLifetime)
            .draft
        for signer in signers { _ = try draft.sign(signer) }
        return draft
    }

    private func expectRefusal(
        _ code: FailureCode, _ file: TrustFile, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let before = try TreeSnapshot(of: workspace.feed)
        let refused = workspace.refusal { _ = try publish(file) }
        #expect(refused?.code == code, "\(refused?.message ?? "")", sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [], sourceLocation: sourceLocation)
    }

    @Test func `publishes each root under its number, and the newest as trust.json`() throws {
        let one = try first()
        #expect(try publish(one).isNew)
        let two = try next(one, signedBy: [roots[1], roots[2]])
        #expect(try publish(two).isNew)
        let feed = try TreeSnapshot(of: workspace.feed)
        #expect(feed.paths == ["trust", "trust.json", "trust/1.json", "trust/2.json"])
        #expect(feed.files["trust.json"] == two.root.document)
        #expect(feed.files["trust/1.json"] == one.root.document)
        for again in [one, two] {
            #expect(try !publish(again).isNew)
            #expect(try TreeSnapshot(of: workspace.feed).changes(since: feed) == [])
        }
    }

    @Test func `completes a stopped publication`() throws {
        let one = try first()
        _ = try publish(one)
        let two = try next(one, signedBy: Array(roots[..<2]))
        try workspace.folder.write(two.root.document, to: "feed/trust/2.json")
        #expect(try !publish(two).isNew)
        #expect(try contents(ofFile: "\(workspace.feed)/trust.json") == two.root.document)
    }

    @Test func `refuses a gap in the chain of roots`() throws {
        let one = try first()
        _ = try publish(one)
        let three = try next(next(one, signedBy: roots), signedBy: roots)
        #expect(three.claims.version == 3)
        try expectRefusal(.manifestMalformed, three)
    }

    @Test func `starts a chain at any version, and refuses an earlier one afterwards`() throws {
        let one = try first()
        let two = try next(one, signedBy: roots)
        #expect(try publish(two).isNew)
        try expectRefusal(.rollbackAttempt, one)
        #expect(try publish(next(two, signedBy: roots)).version == 3)
    }

    @Test func `requires enough root keys of both versions`() throws {
        try expectRefusal(
            .signatureInvalid, workspace.trustFile(workspace.root(roots, threshold: 2), signedBy: [roots[0]]))
        let one = try first()
        _ = try publish(one)
        let new = try Workspace.signer()
        let edit = TrustEdit.replace(roots[0].publicKey.id, by: new.publicKey, revoked: true)
        // Two keys of its own version, but only one of the previous version.
        try expectRefusal(.signatureInvalid, next(one, signedBy: [new, roots[1]], edit))
        // Two keys of the previous version, but only one of its own.
        try expectRefusal(.signatureInvalid, next(one, signedBy: [roots[0], roots[1]], edit))
        #expect(try publish(next(one, signedBy: [new, roots[0], roots[1]], edit)).version == 2)
    }

    @Test func `refuses to change a published root`() throws {
        let one = try first()
        _ = try publish(one)
        try expectRefusal(.versionExists, workspace.trustFile(workspace.root(roots), signedBy: roots))
        // The same root with one more signature is accepted.
        var more = one
        _ = try more.sign(roots[2])
        #expect(try !publish(more).isNew)
        #expect(try contents(ofFile: "\(workspace.feed)/trust/1.json") == one.root.document)
    }

    @Test func `refuses a root of another application and an expired root`() throws {
        _ = try publish(first())
        var other = try workspace.root(roots, appId: "com.example.other")
        other.version = 2
        try expectRefusal(.appMismatch, workspace.trustFile(other, signedBy: roots))
        var late = try workspace.root(roots, threshold: 2)
        late.version = 2
        late.issued = try Timestamp(parsing: "2028-01-01T00:00:00Z")
        try expectRefusal(.expired, workspace.trustFile(late, signedBy: roots))
    }

    @Test func `refuses an implausible issue time, judged by the clock and the feed's channels`() throws {
        let one = try first()
        _ = try publish(one)
        try workspace.put(workspace.document("1.0.0"), by: [workspace.release])
        let late = workspace.start.adding(.seconds(200 * 86_400))
        var two = try one.renewing(issued: DraftTime(late), lifetime: nil)
        for signer in roots { _ = try two.sign(signer) }
        try expectRefusal(.configInvalid, two)

        func publishLate(isClockAccepted: Bool) throws -> TrustPublisher.PublishedRoot {
            try TrustPublisher(feed: workspace.location, now: late, isClockAccepted: isClockAccepted).publish(two)
        }
        let refused = workspace.refusal { _ = try publishLate(isClockAccepted: false) }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("--accept-clock") == true)
        #expect(try publishLate(isClockAccepted: true).isNew)

        let back = workspace.refusal { _ = try two.renewing(issued: DraftTime(workspace.start), lifetime: nil) }
        #expect(back?.message.contains("--accept-clock") == true)
        let checked = DraftTime(workspace.start, isChecked: true)
        let edit = TrustEdit.replace(
            workspace.release.publicKey.id, by: try Workspace.signer().publicKey, revoked: false)
        for three in [
            try two.renewing(issued: checked, lifetime: nil),
            try two.editing(edit, issued: checked, lifetime: nil).draft,
        ] {
            #expect(three.claims.issued == workspace.start)
            #expect(three.claims.expires == workspace.start.adding(TrustFile.standardLifetime))
        }
    }

    @Test func `stops at a root that was tampered with`() throws {
        let one = try first()
        _ = try publish(one)
        let two = try next(one, signedBy: roots)
        try workspace.folder.write(
            try workspace.trustFile(workspace.root(roots), signedBy: []).root.document, to: "feed/trust/1.json")
        let refused = workspace.refusal { _ = try publish(two) }
        #expect(refused?.code == .signatureInvalid)
        #expect(refused?.subject == "\(workspace.feed)/trust/1.json")
    }

    @Test func `keeps the lifetime of a draft that is edited again`() throws {
        let roots = [try Workspace.signer()]
        let complete = try workspace.trustFile(workspace.root(roots), signedBy: roots)
        let year = try complete.renewing(issued: DraftTime(workspace.start), lifetime: nil)
        #expect(year.claims.expires == workspace.start.adding(TrustFile.standardLifetime))
        let long = try complete.renewing(issued: DraftTime(workspace.start), lifetime: .seconds(700 * 86_400))
        let edit = TrustEdit.add(try Workspace.signer().publicKey, to: .release, threshold: nil, notAfter: nil)
        let edited = try long.editing(edit, issued: DraftTime(workspace.start), lifetime: nil).draft
        #expect(edited.claims.expires == workspace.start.adding(.seconds(700 * 86_400)))
    }

    @Test func `reports the channels that a new key must sign`() throws {
        let one = try first()
        _ = try publish(one)
        try workspace.put(workspace.document("1.0.0"), by: [workspace.release])
        try workspace.put(workspace.document("1.0.0", name: "beta"), by: [workspace.release])
        let new = try Workspace.signer()
        let edit = TrustEdit.replace(workspace.release.publicKey.id, by: new.publicKey, revoked: false)
        #expect(try publish(next(one, signedBy: roots, edit)).channelsToSign == ["beta", "stable"])
    }
}
