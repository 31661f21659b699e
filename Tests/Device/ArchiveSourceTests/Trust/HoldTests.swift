import ArchiveSource
import BundleCore
import BundleSigning
import BundleTesting
import BundleValues
import Testing

/// The effect of holds on devices, and its limits.
@Suite struct HoldTests {
    /// A feed with 1.0.0 and 1.1.0 at sequence 2, a guard with key 5, and a device with 1.0.0.
    private struct Scene {
        let feed: TrustFeed
        let device: Follower

        var guardian: SigningPair { feed.keys[5] }

        init(appId: String? = "com.example.kiosk", hasGuard: Bool = true) async throws {
            feed = try TrustFeed(appId: appId)
            let guardian = feed.keys[5]
            device = try Follower(
                feed, trusting: feed.pinned(feed.trustRoot { if hasGuard { $0.set(.guard, [guardian]) } }))
            try feed.offer(1, ["1.0.0"])
            try await device.installs("1.0.0")
            try feed.offer(2, ["1.0.0", "1.1.0"])
        }

        func hold(
            _ sequence: Int = 2, _ versions: [String] = ["1.1.0"], appId: String? = "com.example.kiosk",
            channel: String = "stable"
        ) throws -> SignedEnvelope {
            HoldFormat.envelope(
                HoldDocument(
                    appId: appId, channel: channel, sequence: sequence, issuedAt: Day.number(9),
                    releases: try versions.map { try SemanticVersion(parsing: $0) }, reason: "too many starts fail"))
        }

        func serve(_ envelope: SignedEnvelope, by signers: [SigningPair]? = nil) throws {
            feed.server.set(
                "/channels/stable.hold.json", Route(try envelope.signed(by: signers ?? [guardian]).document))
        }

        /// Returns whether the device keeps 1.0.0 by a decision, not by a failure.
        func isHeld() async throws -> Bool {
            let verdict = try await device.updater().check(explaining: false).decision.verdict
            _ = try await device.update()
            let isAlone = try device.inventory().bundles.map(\.version.description) == ["1.0.0"]
            if case .notInRollout = verdict { return isAlone }
            #expect(!isAlone, "\(verdict)")
            return false
        }
    }

    @Test func `excludes devices from a held release unless they have it`() async throws {
        let scene = try await Scene()
        try await scene.device.installs("1.1.0")
        try scene.serve(try scene.hold())
        _ = try await scene.device.update()
        #expect(try scene.device.inventory().bundles.count == 2)
        let other = try await Scene()
        try other.serve(try other.hold())
        #expect(try await other.isHeld())
    }

    @Test func `applies a hold to older documents but not to newer ones`() async throws {
        let scene = try await Scene()
        try scene.serve(try scene.hold(7))
        #expect(try await scene.isHeld())
        #expect(try scene.device.memory().followed?.paused.map(\.description) == ["1.1.0"])
        try scene.serve(try scene.hold(1))
        #expect(try await !scene.isHeld())
        let other = try await Scene()
        try other.serve(try other.hold(2))
        try other.feed.offer(3, ["1.0.0", "1.1.0"])
        #expect(try await !other.isHeld())
    }

    @Test func `holds only the named releases`() async throws {
        let scene = try await Scene()
        try scene.serve(try scene.hold(2, ["1.2.0"]))
        #expect(try await !scene.isHeld())
    }

    @Test func `ignores a hold for another channel or application`() async throws {
        let scene = try await Scene()
        try scene.serve(try scene.hold(channel: "beta"))
        #expect(try await !scene.isHeld())
        for appId in ["com.example.other", nil] {
            let other = try await Scene()
            try other.serve(try other.hold(appId: appId))
            #expect(try await !other.isHeld(), "\(appId ?? "none")")
        }
    }

    @Test(arguments: [10, 11, 0, 6]) func `ignores a hold signed by another key`(key: Int) async throws {
        let scene = try await Scene()
        try scene.serve(try scene.hold(), by: [scene.feed.keys[key]])
        #expect(try await !scene.isHeld())
    }

    @Test func `does not request holds if the trust root names no guard`() async throws {
        let scene = try await Scene(hasGuard: false)
        try scene.serve(try scene.hold())
        #expect(try await !scene.isHeld())
        #expect(!scene.feed.server.requests.contains { $0.target.contains("hold") })
    }

    @Test func `ignores a hold after a week or for a sequence far ahead`() async throws {
        let scene = try await Scene()
        try scene.serve(try scene.hold(2 + HoldRule.longestLead))
        #expect(try await scene.isHeld())
        try scene.serve(try scene.hold(3 + HoldRule.longestLead))
        #expect(try await !scene.isHeld())
        let late = try await Scene()
        try late.serve(try late.hold())
        var device = late.device
        device.now = Day.number(16)
        try await device.installs("1.1.0")
    }

    @Test func `requires the signatures of as many guards as the trust root states`() async throws {
        let feed = try TrustFeed()
        let guards = [feed.keys[5], feed.keys[6]]
        let device = try Follower(feed, trusting: feed.pinned(feed.trustRoot { $0.set(.guard, guards, threshold: 2) }))
        try feed.offer(1, ["1.1.0"])
        let hold = HoldFormat.envelope(
            HoldDocument(
                appId: nil, channel: "stable", sequence: 1, issuedAt: Day.number(9),
                releases: [try SemanticVersion(parsing: "1.1.0")], reason: ""))
        feed.server.set("/channels/stable.hold.json", Route(try hold.signed(by: guards).document))
        guard case .notInRollout = try await device.updater().check(explaining: false).decision.verdict else {
            Issue.record("not held")
            return
        }
        _ = try await device.update()
        #expect(try device.inventory().bundles.isEmpty)
        feed.server.set("/channels/stable.hold.json", Route(try hold.signed(by: [guards[0]]).document))
        try await device.installs("1.1.0")
    }

    @Test func `rejects channel documents and releases signed by a guard`() async throws {
        let scene = try await Scene()
        try scene.feed.offer(3, ["1.0.0", "1.1.0", "1.2.0"], by: [scene.guardian])
        try await scene.device.refuses(.keyUnknown)
        try scene.feed.offer(scene.feed.document(3, [try scene.feed.release("1.2.0", by: [scene.guardian])]))
        try await scene.device.refuses(.keyUnknown, learnt: true)
    }

    @Test(arguments: [
        "", "{}", "<html>", "{\"payloadType\":\"x\",\"payload\":\"\",\"signatures\":[]}",
    ])
    func `ignores an invalid hold`(text: String) async throws {
        let scene = try await Scene()
        scene.feed.server.set("/channels/stable.hold.json", Route(Array(text.utf8)))
        #expect(try await !scene.isHeld())
    }

    @Test(arguments: [400, 403, 404, 405, 410, 451])
    func `installs a release if the server reports that no hold exists`(status: Int)
        async throws
    {
        let scene = try await Scene()
        scene.feed.server.set("/channels/stable.hold.json", Route(status: status))
        #expect(try await !scene.isHeld())
    }

    @Test(arguments: [401, 408, 429, 500, 503]) func `blocks new releases while the hold cannot be read`(status: Int)
        async throws
    {
        let scene = try await Scene()
        scene.feed.server.set("/channels/stable.hold.json", Route(status: status))
        let failure = try await scene.device.refuses(.httpStatus, learnt: true)
        #expect(failure.message.hasPrefix("It is unknown whether a guard holds releases of channel stable"))
        let wanted = try #require(try scene.device.inventory().ledger.wanted.first)
        #expect(wanted.version.description == "1.1.0" && wanted.code == .httpStatus && wanted.attempts == 1)
        scene.feed.server.set("/channels/stable.hold.json", Route(status: 404))
        try await scene.device.installs("1.1.0")
        #expect(try scene.device.inventory().ledger.wanted == [])
    }

    @Test func `applies recalls and minimum versions while the hold cannot be read`() async throws {
        let scene = try await Scene()
        try await scene.device.installs("1.1.0")
        scene.feed.server.set("/channels/stable.hold.json", Route(status: 503))
        var document = scene.feed.document(3, [try scene.feed.release("1.0.0"), try scene.feed.release("1.1.0")])
        document.recalled = [FeedMemory.Recall(version: try SemanticVersion(parsing: "1.1.0"), reason: "bad")]
        try scene.feed.offer(document)
        try await scene.device.stays(at: "v1.0.0")
        #expect(try scene.device.sequence() == 3)
        // Without another client the check fails, but the recall is applied.
        document.sequence = 4
        document.minimumVersion = try SemanticVersion(parsing: "1.2.0")
        document.releases.append(try scene.feed.release("1.2.0"))
        try scene.feed.offer(document)
        await #expect(throws: UpdateFailure.self) { try await scene.device.update() }
        try scene.device.runs("embedded")
        #expect(try scene.device.inventory().bundles.count == 2)
    }

    @Test func `keeps an installed release after a backdated hold`() async throws {
        let scene = try await Scene()
        var device = scene.device
        device.now = Day.number(12)
        var document = scene.feed.document(3, [try scene.feed.release("1.0.0"), try scene.feed.release("1.1.0")])
        document.releases[1].ramp = Ramp([1, 1000], every: 86_400, from: Day.number(10))
        document.releases[1].salt = "1.1.0"
        try scene.feed.offer(document)
        try await device.installs("1.1.0")
        document.sequence = 4
        try scene.feed.offer(document)
        // The hold begins on the ninth day.
        try scene.serve(try scene.hold(4))
        try await device.stays(at: "v1.1.0")
    }

    @Test(arguments: [
        ("schema", JSONValue.integer(2)), ("channel", .string("../x")), ("sequence", .integer(0)),
        ("releases", .array([])), ("releases", .array([.string("1.1.0"), .string("1.1.0")])),
        ("releases", .array([.string("one")])), ("issuedAt", .string("yesterday")), ("more", .bool(true)),
        ("since", .array([])), ("since", .array([.string("yesterday")])), ("since", .null),
    ])
    func `ignores a hold with an invalid member`(member: String, value: JSONValue) async throws {
        let scene = try await Scene()
        let payload = try edited(scene.hold().payload) { $0[member] = value }
        try scene.serve(SignedEnvelope(payloadType: HoldFormat.payloadType, payload: payload))
        #expect(try await !scene.isHeld())
    }

    @Test func `rejects a channel name that ends like a hold`() {
        #expect(ChannelFileName.isName("stable"))
        #expect(!ChannelFileName.isName("stable.hold"))
    }
}
