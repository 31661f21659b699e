import ArchiveSource
import BundleCore
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct FirstUseTests {
    @Test func `TUF-1: installs the first client from a pinned root with ordered requests`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        #expect(
            feed.server.requests.map(\.target) == [
                "/trust/2.json", "/channels/stable.json", TrustFeed.archivePath("1.0.0"),
            ])
        let memory = try device.memory()
        #expect(memory.trust?.version == 1)
        #expect(memory.followed?.sequence == 1)
        #expect(memory.followed?.signers == [feed.channel.id])
        #expect(memory.clock == Day.number(9))
        #expect(memory.deviceId == "device-1")
        #expect(try device.inventory().bundles.first?.entry.identity.signers == [feed.release.id])
    }

    @Test func `TUF-2: trusts a PEM key for every role without requests for roots`() async throws {
        let feed = try TrustFeed()
        let folder = try TemporaryFolder()
        let path = try folder.write(Array(feed.release.trusted.keys[0].pem.utf8), to: "key.pem")
        let device = try Follower(feed, trusting: try TrustAnchor.read(at: path))
        try feed.offer(1, ["1.0.0"], by: [feed.release])
        try await device.installs("1.0.0")
        #expect(!feed.server.requests.contains { $0.target.contains("trust") })
        #expect(try device.memory().trust == nil)
    }

    @Test func `TUF-3: trusts exactly the PEM keys of a folder`() async throws {
        let feed = try TrustFeed()
        let folder = try TemporaryFolder()
        for (name, pair) in [("a.pem", feed.release), ("b.pem", feed.channel)] {
            try folder.write(Array(pair.trusted.keys[0].pem.utf8), to: name)
        }
        let device = try Follower(feed, trusting: try TrustAnchor.read(at: folder.path))
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        try feed.offer(2, ["1.1.0"], by: [feed.root])
        try await device.refuses(.keyUnknown)
    }

    @Test func `TUF-4: reads a trust root file as the start of a chain`() async throws {
        let feed = try TrustFeed()
        let folder = try TemporaryFolder()
        let document = try TrustRootFormat.envelope(feed.trustRoot()).signed(by: [feed.root]).document
        let anchor = try TrustAnchor.read(at: try folder.write(document, to: "trust.json"))
        #expect(anchor == (try feed.pinned()))
        let device = try Follower(feed, trusting: anchor)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
    }

    @Test func `TUF-5: rejects a feed of another publisher`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed, trusting: try TrustFeed(hasOwnKeys: true).pinned())
        try feed.offer(1, ["1.0.0"])
        try await device.refuses(.keyUnknown)
        #expect(try !Inventory.exists(at: device.store))
    }

    static let pinned: [Scenario] = [
        Scenario("TUF-6: pinned root without a signature", .configInvalid) { feed in
            try pin(TrustRootFormat.envelope(feed.trustRoot()).document)
        },
        Scenario("TUF-7: pinned root with a damaged signature", .configInvalid) { feed in
            var envelope = TrustRootFormat.envelope(feed.trustRoot())
            envelope.signatures = [
                SignedEnvelope.Signature(keyId: feed.root.id, bytes: [UInt8](repeating: 7, count: 64))
            ]
            try pin(envelope.document)
        },
        Scenario("TUF-8: pinned root signed by another of its keys", .configInvalid) { feed in
            try pin(TrustRootFormat.envelope(feed.trustRoot()).signed(by: [feed.release]).document)
        },
        Scenario("TUF-9: pinned root without a version", .configInvalid) { feed in
            let payload = try edited(TrustRootFormat.payload(feed.trustRoot())) { $0["version"] = nil }
            let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
            try pin(envelope.signed(by: [feed.root]).document)
        },
        Scenario("TUF-10: pinned root that is cut short", .configInvalid) { feed in
            try pin(Array(TrustRootFormat.envelope(feed.trustRoot()).signed(by: [feed.root]).document.dropLast(9)))
        },
    ]

    private static func pin(_ document: [UInt8]) throws {
        let folder = try TemporaryFolder()
        _ = try TrustAnchor.read(at: try folder.write(document, to: "trust.json"))
    }

    @Test(arguments: pinned) func `rejects an invalid pinned root before any request`(
        _ scenario: Scenario
    ) throws {
        let feed = try TrustFeed()
        let failure = #expect(throws: UpdateFailure.self) { try scenario.prepare(feed) }
        #expect(failure?.code == scenario.code)
        #expect(failure?.message.contains("trust.json cannot be trusted") == true)
        #expect(feed.server.requests.isEmpty)
    }

    @Test func `TUF-11: ignores unknown signed members`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        let payload = try edited(TrustRootFormat.payload(feed.trustRoot(2))) { $0["custom"] = .string("value") }
        let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
        feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
        try feed.offer(1, payload: { try edited($0) { $0["custom"] = .object(["a": .integer(1)]) } })
        try await device.installs("1.1.0")
        #expect(try device.memory().trust?.version == 2)
    }

    @Test func `TUF-12: reports the decision of an update without storing or installing`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.publish(2)
        try feed.offer(1, ["1.0.0"])
        let answer = try await device.updater().check(explaining: false)
        #expect(answer.decision.verdict == .install)
        #expect(
            answer.decision.outcomes.map(\.rule) == [
                "trustRoot", "channelSignature", "channel", "sequence", "expiry", "signature", "application",
                "recall", "floor", "rollout", "shell", "blocked", "newer",
            ])
        #expect(try !Inventory.exists(at: device.store))
    }
}
