import ArchiveSource
import BundleCore
import BundleSigning
import BundleTesting
import BundleValues
import Glibc
import Testing

@testable import BundlePublish

@Suite("PublisherMemory") struct PublisherMemoryTests {
    private let workspace: Workspace
    private let state: String

    init() throws {
        workspace = try Workspace()
        state = workspace.folder.file("state")
        try workspace.put(workspace.document("1.0.0", "1.1.0"))
    }

    private func terms(_ signers: [Signer]? = nil, remembering: Bool = true) -> ChannelTerms {
        var terms = workspace.terms(signers)
        if remembering { terms.memory = PublisherMemory(state) }
        return terms
    }

    @discardableResult
    private func apply(_ change: ChannelChange, _ terms: ChannelTerms? = nil) throws -> ChannelReport {
        try workspace.editor(terms ?? self.terms()).apply(change, to: "stable")
    }

    private func recall(_ version: String) throws -> ChannelChange {
        .recall(try workspace.version(version), reason: "security hole")
    }

    private func document() throws -> [UInt8] { try contents(ofFile: "\(workspace.feed)/channels/stable.json") }

    /// Restores `bytes` as the channel file, and removes the copies above `sequence`.
    private func putBack(_ bytes: [UInt8], removingAbove sequence: Int? = nil) throws {
        try workspace.folder.write(bytes, to: "feed/channels/stable.json")
        guard let sequence else { return }
        for number in try ChannelHistory.sequences(of: "stable", in: workspace.location) where number > sequence {
            try workspace.location.remove("channels/stable/\(number).json")
        }
    }

    private func refuses(
        _ words: String, by terms: ChannelTerms? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let before = try TreeSnapshot(of: workspace.feed)
        let refused = workspace.refusal { try apply(.renew, terms) }
        #expect(refused?.code == .rollbackAttempt, "\(refused?.message ?? "signed")", sourceLocation: sourceLocation)
        #expect(refused?.message.contains(words) == true, "\(refused?.message ?? "")", sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [], sourceLocation: sourceLocation)
    }

    @Test func `signs the digest of the previous channel file`() throws {
        var digests = [try SHA256Digest.of(ChannelFormat.envelope(parsing: document()).payload)]
        for _ in 0..<3 {
            try apply(.renew)
            #expect(try workspace.read().previous == digests.last)
            digests.append(try SHA256Digest.of(ChannelFormat.envelope(parsing: document()).payload))
        }
    }

    @Test func `refuses an edit of an older channel file that was restored by an attacker`() throws {
        let old = try document()
        try apply(recall("1.1.0"))
        try putBack(old, removingAbove: 1)
        try refuses("an older file was restored")
        // A publisher without recorded state accepts it, because no copy is left for a comparison.
        #expect(try apply(.renew, terms(remembering: false)).changes == ["signed again"])
    }

    @Test func `refuses an older channel file with newer copies, even without recorded state`() throws {
        try apply(.renew)
        let old = try document()
        try apply(recall("1.1.0"))
        try apply(.renew)
        try putBack(old)
        try refuses("channel restore", by: terms(remembering: false))
        let restored = try workspace.editor(terms()).restore("stable", to: nil)
        #expect(restored.document.sequence == 5)
        #expect(restored.document.recalled.map(\.version.description) == ["1.1.0"])
        #expect(try apply(.renew).document.sequence == 6)
    }

    @Test func `refuses a new channel that starts below a signed sequence`() throws {
        try apply(.renew)
        try putBack([], removingAbove: 0)
        try workspace.location.remove("channels/stable.json")
        try workspace.put(workspace.document("1.0.0", name: "beta"))
        func promote(_ first: Int) throws -> ChannelReport {
            var terms = self.terms()
            terms.firstSequence = first
            return try workspace.editor(terms).promote(
                workspace.version("1.0.0"), from: "beta", to: "stable", rollout: nil)
        }
        let refused = workspace.refusal { _ = try promote(1) }
        #expect(refused?.code == .rollbackAttempt)
        #expect(refused?.message.contains("--sequence 3") == true, "\(refused?.message ?? "")")
        #expect(try promote(3).document.sequence == 3)
    }

    @Test func `refuses a channel file of a publisher that edited an older one`() throws {
        let old = try document()
        try apply(recall("1.1.0"))
        try putBack(old, removingAbove: 1)
        try apply(.renew, terms(remembering: false))
        try refuses("does not follow")
        for _ in 0..<3 { try apply(.renew, terms(remembering: false)) }
        try refuses("does not follow")
        try workspace.location.remove("channels/stable/3.json")
        try refuses("some copies between")
    }

    @Test func `accepts channel files of other publishers that follow from its own`() throws {
        try apply(.renew)
        for _ in 0..<4 { try apply(.renew, terms(remembering: false)) }
        #expect(try apply(recall("1.1.0")).document.sequence == 7)
        let entry = try PublisherMemory(state).last(
            of: .init(appId: "com.example.kiosk", channel: "stable", in: workspace.location),
            trusting: [workspace.channel.publicKey.id], shown: nil)
        #expect(entry?.sequence == 7)
        #expect(entry?.feed == workspace.feed)
    }

    @Test func `continues a restored feed above all signed sequences, and reports the loss`()
        throws
    {
        let old = try document()
        try apply(recall("1.1.0"))
        try apply(.renew)
        try putBack(old, removingAbove: 1)
        var terms = self.terms()
        terms.isFeedRestored = true
        let report = try apply(.renew, terms)
        #expect(report.document.sequence == 4)
        #expect(report.changes.count == 2)
        #expect(report.changes.first?.contains("the changes in between are lost") == true)
        #expect(try apply(.renew).changes == ["signed again"])
    }

    @Test func `ignores signatures of a replaced key, and keeps the state of feeds with other keys`() throws {
        let other = try Workspace.signer()
        try apply(recall("1.1.0"))
        try apply(.renew)
        try putBack([], removingAbove: 0)
        try workspace.put(workspace.document("1.0.0"), by: [other])
        #expect(try apply(.renew, terms([other])).document.sequence == 2)
        try workspace.location.remove("channels/stable/2.json")
        try workspace.put(workspace.document("1.0.0"))
        try refuses("an older file was restored")
    }

    @Test func `writes no state in a dry run, and rejects a damaged state`() throws {
        var terms = self.terms()
        terms.isDryRun = true
        try apply(.renew, terms)
        #expect(access(state, F_OK) != 0)
        try apply(.renew)
        let files = try TreeSnapshot(of: state).files
        #expect(files.keys.allSatisfy { $0.hasPrefix("stable-") && $0.hasSuffix(".json") } && files.count == 1)
        try workspace.folder.write([0x7B], to: "state/\(files.keys.first ?? "")")
        let refused = workspace.refusal { try apply(.renew) }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("remove that file") == true)
    }

    /// Signs the channel of `feed` again.
    private func renew(_ feed: String, restored: Bool = false) throws -> ChannelReport {
        var terms = self.terms()
        terms.isFeedRestored = restored
        return try ChannelEditor(feed: FeedFolder(feed), terms).apply(.renew, to: "stable")
    }

    private func copyFeed(to name: String) throws -> String {
        let copy = workspace.folder.file(name)
        try run("cp", "-a", workspace.feed, copy)
        return copy
    }

    private func run(_ line: String...) throws {
        let ended = try Program.run(line, environment: ["PATH": "/usr/bin:/bin"])
        try #require(ended.status == 0, "\(ended.errors)")
    }

    @Test func `keeps the feeds of one key and channel apart`() throws {
        let staging = try Workspace()
        try staging.put(staging.document("2.0.0"), by: [workspace.channel])
        for sequence in 2...4 { #expect(try apply(.renew).document.sequence == sequence) }
        #expect(try renew(staging.feed).document.sequence == 2)
        let old = try document()
        try apply(recall("1.1.0"))
        #expect(try renew(staging.feed).document.sequence == 3)
        try putBack(old, removingAbove: 4)
        try refuses("an older file was restored")
    }

    @Test func `recognizes a feed by each of its paths`() throws {
        let old = try document()
        try apply(.renew)
        try putBack(old, removingAbove: 1)
        let link = workspace.folder.file("link")
        #expect(symlink(workspace.feed, link) == 0)
        for path in [link, "\(workspace.feed)/", "\(workspace.folder.path)/./feed"] {
            #expect(workspace.refusal { _ = try renew(path) }?.code == .rollbackAttempt, "\(path)")
        }
    }

    @Test func `refuses an older copy of a feed that was moved, and continues the newest one`() throws {
        try apply(.renew)
        let old = try copyFeed(to: "old")
        for _ in 0..<3 { try apply(.renew) }
        let refused = workspace.refusal { _ = try renew(old) }
        #expect(refused?.code == .rollbackAttempt)
        #expect(
            refused?.message.contains("signed that sequence for \(workspace.feed)") == true, "\(refused?.message ?? "")"
        )
        let moved = try copyFeed(to: "moved")
        #expect(try renew(moved).document.sequence == 6)
        try run("cp", "\(workspace.feed)/channels/stable.json", "\(moved)/channels/")
        try run("rm", "\(moved)/channels/stable/6.json")
        #expect(workspace.refusal { _ = try renew(moved) }?.code == .rollbackAttempt)
        #expect(try renew(old, restored: true).document.sequence == 6)
    }

    /// Replaces the state by that of a publisher that stopped after it meant to write a file with the digest `payload`, or the recorded
    /// one.
    private func interrupt(payload: String? = nil) throws {
        let name = try #require(TreeSnapshot(of: state).files.keys.first)
        var object = try #require(
            JSONScanner.parse(contents(ofFile: "\(state)/\(name)"), maximumBytes: 1 << 20).objectValue)
        var entry = try #require(object["entries"]?.arrayValue?.first?.objectValue)
        #expect(entry["isIntended"] == nil)
        (entry["earlier"], entry["isIntended"]) = (.array([]), .bool(true))
        if let payload { entry["payloadSha256"] = .string(payload) }
        object["entries"] = .array([.object(entry)])
        try workspace.folder.write(JSONWriter.bytes(of: .object(object)), to: "state/\(name)")
    }

    @Test func `a publisher that stopped before it recorded its first file recognizes the file`() throws {
        try apply(.renew)
        var careful = terms()
        careful.requiresComparison = true
        try interrupt()
        #expect(try apply(.renew, careful).document.sequence == 3)
        #expect(try apply(.renew, careful).document.sequence == 4)
        // The feed has another file than the one that it meant to write.
        try interrupt(payload: String(repeating: "0", count: 64))
        let refused = workspace.refusal { try apply(.renew, careful) }
        #expect(refused?.code == .configInvalid)
        #expect(refused?.message.contains("has not changed the channel before") == true)
    }

    @Test(arguments: ["channels/stable/1.json", "channels/stable.json"])
    func `a first publication that stops after any write can be repeated`(stop: String) throws {
        let staging = try Workspace()
        try staging.put(staging.document("1.0.0", name: "beta"), by: [workspace.channel])
        let first = self.terms()
        var seconds = 0
        /// The terms of the next attempt: another time gives another file.
        var terms: ChannelTerms {
            let clock = Timestamp(clamping: first.issuedAt.secondsSinceEpoch + seconds)
            var terms = ChannelTerms(signers: first.signers, clock: clock)
            (terms.trust, terms.memory) = (first.trust, first.memory)
            (terms.requiresComparison, terms.firstSequence) = (true, 1)
            seconds += 60
            return terms
        }
        func promote(in feed: any FeedLocation) throws {
            _ = try ChannelEditor(feed: feed, terms).promote(
                workspace.version("1.0.0"), from: "beta", to: "stable", rollout: nil)
        }
        struct Stop: Error {}
        func stopping(after name: String) -> HookedLocation {
            let feed = HookedLocation(staging.location)
            feed.afterWrite = { if $0 == name { throw Stop() } }
            return feed
        }
        #expect(throws: Stop.self) { try promote(in: stopping(after: stop)) }
        // The copy of the first attempt becomes the channel file, as that of another publisher would.
        if stop != "channels/stable.json" { try promote(in: staging.location) }
        // The edit recognizes the file, and stops before it writes the next one.
        #expect(throws: Stop.self) {
            try ChannelEditor(feed: stopping(after: "channels/stable/2.json"), terms).apply(.renew, to: "stable")
        }
        let present = try ChannelEditor.read("stable", in: staging.location, trust: nil, clock: first.issuedAt).sequence
        let renewed = try ChannelEditor(feed: staging.location, terms).apply(.renew, to: "stable")
        #expect(renewed.document.sequence > present)
    }

    /// Replaces the state by that of version 0.9.0, with `feed` as the address that it recorded.
    private func downgradeState(recording feed: String) throws {
        let name = try #require(TreeSnapshot(of: state).files.keys.first)
        var object = try #require(
            JSONScanner.parse(contents(ofFile: "\(state)/\(name)"), maximumBytes: 1 << 20).objectValue)
        var entry = try #require(object["entries"]?.arrayValue?.first?.objectValue)
        entry["earlier"] = nil
        entry["feed"] = .string(feed)
        object["entries"] = .array([.object(entry)])
        try workspace.folder.write(JSONWriter.bytes(of: .object(object)), to: "state/\(name.prefix(23)).json")
        try run("rm", "\(state)/\(name)")
    }

    @Test(arguments: [nil, "feed"]) func `continues the state of version 0.9.0`(recorded: String?) throws {
        let old = try document()
        try apply(.renew)
        try apply(.renew)
        let newest = try document()
        try downgradeState(recording: recorded ?? workspace.feed)
        try putBack(old, removingAbove: 1)
        try refuses("an older file was restored")
        // Another feed of the same key begins without it.
        let staging = try Workspace()
        try staging.put(staging.document("1.0.0", name: "beta"), by: [workspace.channel])
        var terms = self.terms()
        terms.firstSequence = 1
        let made = try ChannelEditor(feed: staging.location, terms).promote(
            workspace.version("1.0.0"), from: "beta", to: "stable", rollout: nil)
        #expect(made.document.sequence == 1)
        try refuses("an older file was restored")

        try putBack(newest)
        #expect(try apply(.renew).document.sequence == 4)
        #expect(try TreeSnapshot(of: state).files.keys.allSatisfy { $0.count > "stable-0123456789abcdef.json".count })
        try putBack(newest, removingAbove: 3)
        try refuses("an older file was restored")
    }

    @Test func `refuses a state folder that other users can write to`() throws {
        try apply(.renew)
        #expect(chmod(state, 0o777) == 0)
        #expect(workspace.refusal { try apply(.renew) }?.message.contains("chmod go-w") == true)
    }
}

@Suite("LineageRule") struct LineageRuleTests {
    private static func digest(_ number: UInt8) throws -> SHA256Digest { try .of([number]) }

    private static func link(_ sequence: Int, _ own: UInt8, after previous: UInt8?) throws -> LineageRule.LineageLink {
        .init(sequence: sequence, payloadSha256: try digest(own), previous: try previous.map(digest))
    }

    private static func known(_ sequence: Int, _ own: UInt8) throws -> PublisherMemory.LastSigned {
        .init(sequence: sequence, payloadSha256: try digest(own), signers: [], feed: "feed")
    }

    @Test func `follows digests back to the last signed channel file`() throws {
        let copies = [try Self.link(6, 6, after: 5), try Self.link(7, 7, after: 6), try Self.link(9, 9, after: 7)]
        func judge(_ link: LineageRule.LineageLink?, _ known: PublisherMemory.LastSigned?) -> LineageRule {
            LineageRule.judge(link, known: known) { digest, _ in copies.first { $0.payloadSha256 == digest } }
        }
        let known = try Self.known(5, 5)
        #expect(judge(nil, nil) == .unknown)
        #expect(judge(nil, known) == .older(known: 5))
        #expect(try judge(Self.link(4, 4, after: 3), known) == .older(known: 5))
        #expect(try judge(Self.link(5, 5, after: 4), known) == .follows)
        #expect(try judge(Self.link(5, 50, after: 4), known) == .other(known: 5))
        #expect(try judge(Self.link(6, 6, after: 5), known) == .follows)
        #expect(try judge(Self.link(6, 60, after: 50), known) == .other(known: 5))
        #expect(try judge(Self.link(10, 10, after: 9), known) == .follows)
        #expect(try judge(Self.link(10, 10, after: 80), known) == .untraced(known: 5))
        #expect(try judge(Self.link(10, 10, after: nil), known) == .other(known: 5))
        #expect(try judge(Self.link(10, 10, after: 9), Self.known(8, 8)) == .other(known: 8))
    }
}
