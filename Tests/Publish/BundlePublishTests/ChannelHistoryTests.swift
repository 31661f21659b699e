import BundleFormats
import ArchiveSource
import BundleSigning
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundlePublish

/// The numbered copies of channel files, each of which is written before its channel file.
@Suite("ChannelHistory") struct ChannelHistoryTests {
    private let workspace: Workspace

    init() throws { workspace = try Workspace() }

    private func bytes(_ name: String) throws -> [UInt8]? {
        try workspace.location.read(name, maximumBytes: 1 << 20)?.bytes
    }

    private func history(_ trust: TrustAnchor? = nil) throws -> [ChannelHistory.Record] {
        try ChannelHistory("stable", in: workspace.location, trust: trust, clock: workspace.start).entries
    }

    private func apply(_ change: ChannelChange) throws -> ChannelReport {
        try workspace.editor().apply(change, to: "stable")
    }

    @Test func `has an entry with the changes of each channel file`() throws {
        try workspace.put(workspace.document("1.0.0", "1.1.0"))
        let version = try workspace.version("1.1.0")
        _ = try apply(.rollout(version, 100))
        _ = try apply(.pause(version))
        _ = try apply(.resume(version))
        _ = try apply(.recall(version, reason: "white screen"))
        _ = try apply(.reinstate(version))
        _ = try apply(.recallBelow(try workspace.version("1.0.0")))
        _ = try apply(.poll(ChannelDocument.Poll(interval: 300, jitter: 0)))
        _ = try apply(.renew)
        _ = try apply(.withdraw(version))
        #expect(try bytes("channels/stable/10.json") == bytes("channels/stable.json"))
        let entries = try history(.keys(TrustedKeys([workspace.channel.publicKey])))
        #expect(entries.map(\.document.sequence) == Array(2...10))
        #expect(entries.allSatisfy { $0.isVerified == true && $0.keyIds == [workspace.channel.publicKey.id] })
        #expect(
            entries.map { $0.changes.joined(separator: "; ") } == [
                "starts with 1.0.0 for every device, 1.1.0 for 10% of the devices", "1.1.0: paused",
                "1.1.0: no longer paused", "1.1.0: recalled, white screen", "1.1.0: no longer recalled",
                "nothing below 1.0.0 may run", "devices check every 5m, with a random delay of up to 0s",
                "signed again",
                "1.1.0: no longer in the channel",
            ])
        let unknownKey = try Workspace.signer()
        #expect(try history(.keys(TrustedKeys([unknownKey.publicKey]))).allSatisfy { $0.isVerified == false })
        #expect(try history().allSatisfy { $0.isVerified == nil })
    }

    /// The state after a publisher stopped between the copy and the channel file.
    private func stopped(by signer: Signer) throws {
        try workspace.put(workspace.document("1.0.0", "1.1.0"))
        var next = try workspace.document("1.0.0", "1.1.0")
        next.sequence = 2
        next.previous = try .of(ChannelFormat.payload(workspace.read()))
        next.releases[1].rollout = 10
        let bytes = try [signer].sign(ChannelFormat.envelope(next)).document
        #expect(try workspace.location.create("channels/stable/2.json", with: .bytes(bytes)))
    }

    @Test func `continues after a publisher that stopped before it wrote the channel file`() throws {
        try stopped(by: workspace.channel)
        #expect(try apply(.pause(try workspace.version("1.0.0"))).document.sequence == 3)
        #expect(try workspace.read().releases.map(\.isPaused) == [true, false])
        #expect(try workspace.read().releases.map(\.rollout) == [1000, 10])
        #expect(try bytes("channels/stable/3.json") == bytes("channels/stable.json"))
        #expect(try history().map(\.document.sequence) == [2, 3])
    }

    @Test func `rejects a copy with an unknown signature`() throws {
        try stopped(by: Workspace.signer())
        let before = try TreeSnapshot(of: workspace.feed)
        let refused = workspace.refusal { _ = try apply(.pause(workspace.version("1.0.0"))) }
        #expect(refused?.code == .keyUnknown)
        #expect(try TreeSnapshot(of: workspace.feed).changes(since: before) == [])
    }

    /// A few editors with a few edits each; Scripts/prove/soak runs hundreds and kills them.
    @Test(arguments: LocationKind.all.filter { $0 != .singleWriterBucket })
    func `keeps each of many concurrent edits exactly once`(_ kind: LocationKind) throws {
        let location = try kind.location(in: workspace.folder)
        let versions = (0..<6).map { "1.\($0).0" }
        var document = try workspace.document()
        for version in versions { _ = try document.add(try workspace.manifest(version), rollout: nil) }
        let bytes = try [workspace.channel].sign(ChannelFormat.envelope(document)).document
        #expect(try location.create("channels/stable.json", with: .bytes(bytes)))
        let failures = Mutex<[String]>([])
        let (path, key, start) = (workspace.folder.path, workspace.folder.file("channel"), workspace.start)
        _ = try KeyFile.generate(.ed25519, prefix: key, passphrase: nil)
        let signer = try KeyFile.signer(at: "\(key).key.pem") { [] }
        let signed = try [signer].sign(ChannelFormat.envelope(document)).document
        let read = try #require(try location.read("channels/stable.json", maximumBytes: 1 << 20))
        try location.replace("channels/stable.json", with: signed, version: read.version)
        let threads = try versions.map { text in
            try BlockingThread {
                do {
                    let signer = try KeyFile.signer(at: "\(key).key.pem") { [] }
                    let terms = ChannelTerms(signers: [signer], clock: start)
                    let version = try SemanticVersion(parsing: text)
                    _ = try ChannelEditor(feed: kind.location(inFolder: path), terms).apply(
                        .pause(version), to: "stable")
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        for thread in threads { thread.join() }
        let entries = try ChannelHistory("stable", in: location, trust: nil, clock: start).entries
        let done = versions.count - failures.withLock { $0.count }
        // An editor that lost six attempts has changed nothing, and its error says so.
        #expect(failures.withLock { $0.allSatisfy { $0.contains("Run the command again when they are done") } })
        #expect(entries.map(\.document.sequence) == Array(2..<2 + done))
        #expect(entries.last?.document.releases.count { $0.isPaused } == done)
        #expect(done >= 1)
    }
}
