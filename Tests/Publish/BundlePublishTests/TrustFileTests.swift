import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@testable import BundlePublish

@Suite struct `A trust root's draft` {
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

    @Test func `is complete with as many root keys as it asks for, each counted once`() throws {
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
        #expect(file.signatures.map(\.isGood) == [true, true, true])
        #expect(file.claims.expires.description == "2031-01-01T00:00:00Z")
    }

    @Test func `has the next version after a complete root, and the same after a draft`() throws {
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

    @Test func `survives its file`() throws {
        let file = try edited(
            first(signedBy: roots),
            .add(workspace.channel.publicKey, to: .release, threshold: 2, notAfter: workspace.start))
        let path = workspace.folder.file("trust.json")
        try file.write(to: path, replacing: false)
        #expect(try TrustFile.read(path).claims == file.claims)
        #expect(workspace.refusal { try file.write(to: path, replacing: false) }?.code == .configInvalid)
        try file.write(to: path, replacing: true)
    }

    @Test func `replaces a key in every role, and revokes it`() throws {
        let (old, new) = (workspace.release.publicKey.id, try Workspace.signer().publicKey)
        let shared = try edited(first(), .add(workspace.release.publicKey, to: .root, threshold: nil, notAfter: nil))
        let root = try edited(shared, .replace(old, by: new, revoked: true)).claims
        #expect(root.roles[.release]?.keyIds == [new.id])
        #expect(root.roles[.root]?.keyIds.contains(new.id) == true)
        #expect(root.roles(of: old).isEmpty)
        #expect(!root.keys.contains { $0.publicKey.id == old })
        #expect(root.revoked == [old])
    }

    @Test func `loses its channel role with the last channel key`() throws {
        let root = try edited(
            first(), .remove(workspace.channel.publicKey.id, from: nil, revoked: false, threshold: nil)
        ).claims
        #expect(root.roles[.channel] == nil)
        #expect(root.trusted(for: .channel, at: nil).keys == [workspace.release.publicKey])
    }

    @Test func `can be satisfied, or is refused`() throws {
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

    @Test func `knows only its own keys, and takes no revoked one back`() throws {
        let stranger = try Workspace.signer().publicKey
        let file = try first()
        for edit in [
            TrustEdit.remove(stranger.id, from: nil, revoked: false, threshold: nil),
            .remove(roots[0].publicKey.id, from: .release, revoked: false, threshold: nil),
            .replace(stranger.id, by: roots[0].publicKey, revoked: false),
        ] {
            #expect(workspace.refusal { _ = try edited(file, edit) }?.code == .configInvalid)
        }
        let revoked = try edited(file, .remove(roots[0].publicKey.id, from: nil, revoked: true, threshold: nil))
        let refused = workspace.refusal {
            _ = try edited(revoked, .add(roots[0].publicKey, to: .root, threshold: nil, notAfter: nil))
        }
        #expect(refused?.subject == roots[0].publicKey.id)
    }

    @Test func `that is none is told by its path`() throws {
        let path = try workspace.folder.write(Array("{}".utf8), to: "x.json")
        let refused = workspace.refusal { _ = try TrustFile.read(path) }
        #expect(refused?.code == .manifestMalformed)
        #expect(refused?.subject == path)
    }
}

@Suite struct `A feed's trust roots` {
    private let workspace: Workspace
    private let roots: [Signer]

    init() throws {
        workspace = try Workspace()
        roots = try (0..<3).map { _ in try Workspace.signer() }
    }

    private func publish(_ file: TrustFile) throws -> TrustPublisher.Report {
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

    @Test func `are a chain under their own numbers, and the newest by name`() throws {
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

    @Test func `are completed by publishing again after a stop`() throws {
        let one = try first()
        _ = try publish(one)
        let two = try next(one, signedBy: Array(roots[..<2]))
        try workspace.folder.write(two.root.document, to: "feed/trust/2.json")
        #expect(try !publish(two).isNew)
        #expect(try contents(ofFile: "\(workspace.feed)/trust.json") == two.root.document)
    }

    @Test func `have no gaps`() throws {
        let one = try first()
        _ = try publish(one)
        let three = try next(next(one, signedBy: roots), signedBy: roots)
        #expect(three.claims.version == 3)
        try expectRefusal(.manifestMalformed, three)
    }

    @Test func `may begin anywhere and do not begin earlier afterwards`() throws {
        let one = try first()
        let two = try next(one, signedBy: roots)
        #expect(try publish(two).isNew)
        try expectRefusal(.rollbackAttempt, one)
        #expect(try publish(next(two, signedBy: roots)).version == 3)
    }

    @Test func `are signed by enough root keys of both versions`() throws {
        try expectRefusal(
            .signatureInvalid, workspace.trustFile(workspace.root(roots, threshold: 2), signedBy: [roots[0]]))
        let one = try first()
        _ = try publish(one)
        let new = try Workspace.signer()
        let edit = TrustEdit.replace(roots[0].publicKey.id, by: new.publicKey, revoked: true)
        // Two of its own, but only one of the version before.
        try expectRefusal(.signatureInvalid, next(one, signedBy: [new, roots[1]], edit))
        // Two of the version before, but only one of its own.
        try expectRefusal(.signatureInvalid, next(one, signedBy: [roots[0], roots[1]], edit))
        #expect(try publish(next(one, signedBy: [new, roots[0], roots[1]], edit)).version == 2)
    }

    @Test func `never change`() throws {
        let one = try first()
        _ = try publish(one)
        try expectRefusal(.versionExists, workspace.trustFile(workspace.root(roots), signedBy: roots))
        // The same with one more signature is the same.
        var more = one
        _ = try more.sign(roots[2])
        #expect(try !publish(more).isNew)
        #expect(try contents(ofFile: "\(workspace.feed)/trust/1.json") == one.root.document)
    }

    @Test func `are of one application, and not expired`() throws {
        _ = try publish(first())
        var other = try workspace.root(roots, appId: "com.example.other")
        other.version = 2
        try expectRefusal(.appMismatch, workspace.trustFile(other, signedBy: roots))
        var late = try workspace.root(roots, threshold: 2)
        late.version = 2
        late.issued = try Timestamp(parsing: "2028-01-01T00:00:00Z")
        try expectRefusal(.expired, workspace.trustFile(late, signedBy: roots))
    }

    @Test func `have a time that can be right, by the clock and by the feed's channels`() throws {
        let one = try first()
        _ = try publish(one)
        try workspace.put(workspace.document("1.0.0"), by: [workspace.release])
        let late = workspace.start.adding(.seconds(200 * 86_400))
        var two = try one.renewing(issued: DraftTime(late), lifetime: nil)
        for signer in roots { _ = try two.sign(signer) }
        try expectRefusal(.configInvalid, two)

        func publishLate(isClockChecked: Bool) throws -> TrustPublisher.Report {
            try TrustPublisher(feed: workspace.location, now: late, isClockChecked: isClockChecked).publish(two)
        }
        let refused = workspace.refusal { _ = try publishLate(isClockChecked: false) }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("--clock-checked") == true)
        #expect(try publishLate(isClockChecked: true).isNew)

        let back = workspace.refusal { _ = try two.renewing(issued: DraftTime(workspace.start), lifetime: nil) }
        #expect(back?.message.contains("--clock-checked") == true)
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

    @Test func `go no further after one that was tampered with`() throws {
        let one = try first()
        _ = try publish(one)
        let two = try next(one, signedBy: roots)
        try workspace.folder.write(
            try workspace.trustFile(workspace.root(roots), signedBy: []).root.document, to: "feed/trust/1.json")
        let refused = workspace.refusal { _ = try publish(two) }
        #expect(refused?.code == .signatureInvalid)
        #expect(refused?.subject == "\(workspace.feed)/trust/1.json")
    }

    @Test func `a draft that is edited again counts as long as it was to`() throws {
        let roots = [try Workspace.signer()]
        let complete = try workspace.trustFile(workspace.root(roots), signedBy: roots)
        let year = try complete.renewing(issued: DraftTime(workspace.start), lifetime: nil)
        #expect(year.claims.expires == workspace.start.adding(TrustFile.standardLifetime))
        let long = try complete.renewing(issued: DraftTime(workspace.start), lifetime: .seconds(700 * 86_400))
        let edit = TrustEdit.add(try Workspace.signer().publicKey, to: .release, threshold: nil, notAfter: nil)
        let edited = try long.editing(edit, issued: DraftTime(workspace.start), lifetime: nil).draft
        #expect(edited.claims.expires == workspace.start.adding(.seconds(700 * 86_400)))
    }

    @Test func `tell which channels are to be signed by a new key`() throws {
        let one = try first()
        _ = try publish(one)
        try workspace.put(workspace.document("1.0.0"), by: [workspace.release])
        try workspace.put(workspace.document("1.0.0", name: "beta"), by: [workspace.release])
        let new = try Workspace.signer()
        let edit = TrustEdit.replace(workspace.release.publicKey.id, by: new.publicKey, revoked: false)
        #expect(try publish(next(one, signedBy: roots, edit)).channelsToSign == ["beta", "stable"])
    }
}
