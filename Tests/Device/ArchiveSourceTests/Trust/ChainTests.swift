import ArchiveSource
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

@Suite struct ChainTests {
    private func settled(_ feed: TrustFeed) async throws -> Follower {
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        return device
    }

    @Test func `TUF-126: follows five roots in one run, each signed by its predecessor`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        for version in 2...6 {
            try feed.publish(version, by: [feed.keys[version - 2], feed.keys[version - 1]]) {
                $0.set(.root, [feed.keys[version - 1]])
            }
        }
        try feed.offer(2, ["1.1.0"])
        try await device.installs("1.1.0")
        let trust = try #require(try device.memory().trust)
        #expect(trust.version == 6)
        #expect(trust.chain.count == 6)
        let asked = feed.server.requests.map(\.target).filter { $0.hasPrefix("/trust") }
        #expect(asked == [2, 2, 3, 4, 5, 6, 7].map { "/trust/\($0).json" })
    }

    @Test func `TUF-127: stores a root before it requests the next one`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2)
        try feed.publish(3)
        feed.server.set("/trust/4.json", Route().with { $0.raw = [] })
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.networkUnavailable, learnt: true)
        #expect(try device.memory().trust?.version == 3)
        try feed.publish(4)
        try await device.installs("1.1.0")
        #expect(try device.memory().trust?.version == 4)
    }

    @Test func `TUF-128: follows 256 roots a run and keeps the pinned one`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        for version in 2...301 { try feed.publish(version) }
        try feed.offer(1, ["1.0.0"])
        // In memory, to avoid writing each of them.
        var inventory = try device.inventory()
        for expected in [257, 301, 301] {
            let offer = try await device.offer(&inventory)
            let update = try #require(offer.feed)
            #expect(update.after.trust?.version == expected)
            #expect(update.after.trust?.chain.count == expected)
            inventory = inventory.recording(update)
        }
    }

    @Test func `stores a recall that arrives during a download`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        let gate = try Gate()
        try feed.offer(2, ["1.0.0", "1.1.0"])
        feed.server.set(
            TrustFeed.archivePath("1.1.0"),
            Route(TrustFeed.archive("1.1.0")).with { $0.pace = .held(after: 0, gate) })
        let runner = UpdateRunner(try device.updater())
        let first = Task { try await runner.check() }
        let deadline = ContinuousClock.now + .seconds(60)
        // Sleeps instead of blocking a thread that the download needs.
        while !feed.server.requests.contains(where: { $0.target == TrustFeed.archivePath("1.1.0") }),
            ContinuousClock.now < deadline
        { try await Task.sleep(for: .milliseconds(10)) }
        try feed.offer(3, ["1.1.0"]) {
            $0.recalled = [FeedMemory.Recall(version: try SemanticVersion(parsing: "1.0.0"), reason: "white")]
        }
        let second = Task { try await runner.check() }
        while try device.sequence() != 3, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(10))
        }
        let memory = try device.memory()
        #expect(memory.followed?.sequence == 3)
        #expect(memory.withdrawal(of: try SemanticVersion(parsing: "1.0.0")) == .recalled(reason: "white"))
        gate.open()
        for check in [first, second] { _ = try await check.value }
        #expect(try device.inventory().bundles.contains { $0.version.description == "1.1.0" })
    }

    @Test(arguments: [true, false]) func `uses the check interval of the channel`(says: Bool) async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"]) { if says { $0.poll = ChannelDocument.Poll(interval: 3, jitter: 7) } }
        let runner = UpdateRunner(try device.updater())
        #expect(await runner.pace == nil)
        _ = try await runner.check()
        #expect(await runner.pace == (says ? PollPace(every: .seconds(10), jitter: .seconds(7)) : nil))
    }

    static let refused: [Scenario] = [
        Scenario("TUF-129: the next root has a lower version", .rollbackAttempt) { feed in
            let envelope = TrustRootFormat.envelope(feed.trustRoot(1) { $0.issued = Day.number(1) })
            feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
        },
        Scenario("TUF-130: the next root skips a version", .manifestMalformed) { feed in
            let envelope = TrustRootFormat.envelope(feed.trustRoot(3))
            feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
        },
        Scenario("TUF-131: the next root has version 0", .manifestMalformed) { feed in
            let payload = try edited(TrustRootFormat.payload(feed.trustRoot(2))) { $0["version"] = .integer(0) }
            let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
            feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
        },
        Scenario("TUF-132: the next root is of another application", .appMismatch) { feed in
            try feed.publish(2) { $0.appId = "org.example.other" }
        },
        Scenario("TUF-133: the next root is longer than 256 KiB", .manifestMalformed) { feed in
            let document = try TrustRootFormat.envelope(feed.trustRoot(2)).signed(by: [feed.root]).document
            let padding = [UInt8](repeating: 0x20, count: TrustRootFormat.maximumBytes - document.count + 1)
            feed.serve(document + padding, asRoot: 2)
        },
        Scenario("TUF-134: the next root is endless", .manifestMalformed) { feed in
            feed.server.set("/trust/2.json", Route().with { $0.body = .endless })
        },
        Scenario("TUF-135: the next root is of schema 2", .manifestMalformed) { feed in
            let payload = try edited(TrustRootFormat.payload(feed.trustRoot(2))) { $0["schema"] = .integer(2) }
            let envelope = SignedEnvelope(payloadType: TrustRootFormat.payloadType, payload: payload)
            feed.serve(try envelope.signed(by: [feed.root]).document, asRoot: 2)
        },
        Scenario("TUF-136: the next root has exactly 256 KiB", nil) { feed in
            let document = try TrustRootFormat.envelope(feed.trustRoot(2)).signed(by: [feed.root]).document
            feed.serve(
                document + [UInt8](repeating: 0x20, count: TrustRootFormat.maximumBytes - document.count), asRoot: 2)
            try feed.offer(2, ["1.1.0"])
        },
    ]

    @Test(arguments: refused) func `accepts only a valid next root`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test(arguments: [2, 3, 1])
    func `verifies the signatures of a root before it compares its values`(version: Int) async throws {
        let feed = try TrustFeed(appId: "org.example.app")
        let device = try await settled(feed)
        let foreign = TrustRootFormat.envelope(feed.trustRoot(version) { $0.appId = "org.example.other" })
        feed.serve(try foreign.signed(by: [feed.keys[4]]).document, asRoot: 2)
        try await device.refuses(.keyUnknown)
        var forged = foreign
        forged.signatures = try TrustRootFormat.envelope(feed.trustRoot(2)).signed(by: [feed.root]).signatures
        feed.serve(forged.document, asRoot: 2)
        try await device.refuses(.signatureInvalid)
        feed.serve(foreign.document, asRoot: 2)
        try await device.refuses(.signatureInvalid)
    }

    @Test func `TUF-137: rejects a known version with other bytes as the next root`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2)
        try await device.stays(at: "v1.0.0")
        let again = TrustRootFormat.envelope(feed.trustRoot(2) { $0.expires = Day.number(900) })
        feed.serve(try again.signed(by: [feed.root]).document, asRoot: 3)
        try await device.refuses(.rollbackAttempt)
        #expect(try device.memory().trust?.version == 2)
    }

    @Test func `TUF-138: keeps an accepted root that the feed no longer has`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(2, ["1.1.0"], by: [feed.keys[3]])
        try await device.installs("1.1.0")
        feed.server.set("/trust/2.json", Route([], status: 404))
        try feed.offer(3, ["1.2.0"])
        try await device.refuses(.keyUnknown)
        #expect(try device.memory().trust?.version == 2)
    }

    @Test func `TUF-139: accepts a key that a later root adds again`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.keyUnknown, learnt: true)
        try feed.publish(3)
        try await device.installs("1.1.0")
    }

    @Test func `TUF-140: rejects an older pinned root of another chain`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.publish(2)
        try await device.stays(at: "v1.0.0")
        device.anchor = try feed.pinned(feed.trustRoot { $0.set(.root, [feed.keys[4]]) }, by: [feed.keys[4]])
        try await device.refuses(.rollbackAttempt)
    }

    @Test func `TUF-141: continues the stored chain after a newer shell pins one of its roots`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        for version in 2...4 { try feed.publish(version) }
        try await device.stays(at: "v1.0.0")
        device.anchor = try feed.pinned(feed.trustRoot(3))
        try await device.stays(at: "v1.0.0")
        #expect(try device.memory().trust?.version == 4)
    }

    @Test func `TUF-142: accepts a pinned root of another chain with a higher version`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        device.anchor = try feed.pinned(
            feed.trustRoot(7) {
                $0.set(.root, [feed.keys[4]])
                $0.set(.channel, [feed.keys[5]])
            }, by: [feed.keys[4]])
        try feed.offer(1, ["1.1.0"], by: [feed.keys[5]])
        try await device.installs("1.1.0")
        #expect(try device.memory().trust?.version == 7)
        #expect(try device.memory().trust?.chain.count == 1)
    }

    @Test func `TUF-143: rejects new releases of a revoked key and keeps the installed one`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) {
            $0.set(.release, [feed.release, feed.keys[3]])
            $0.revoked = [feed.release.id]
        }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.keyUnknown, learnt: true)
        try device.runs("v1.0.0")
        let entry = try #require(try device.inventory().bundles.first?.entry)
        #expect(try device.memory().isDistrusted(signers: entry.identity.signers))
        try feed.offer(feed.document(3, [try feed.release("1.1.0", by: [feed.keys[3]])]))
        try await device.installs("1.1.0")
    }

    @Test func `TUF-144: does not fall back to a client signed by a revoked key`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) {
            $0.set(.release, [feed.release, feed.keys[3]])
            $0.revoked = [feed.release.id]
        }
        try feed.offer(feed.document(2, [try feed.release("1.1.0", by: [feed.keys[3]])]))
        try await device.installs("1.1.0")
        var ledger = try device.inventory().ledger
        let failed = try #require(ClientName("v1.1.0"))
        ledger.lastKnownGood = try #require(ClientName("v1.0.0"))
        ledger.launch = Launch(
            name: failed, tokenSha256: try .of([]), at: Day.number(10), isTrial: true, verdict: .faulty)
        let inventory = Inventory(
            path: device.store, ledger: ledger, bundles: try device.inventory().bundles)
        let shell = try SemanticVersion(parsing: "1.0.0")
        #expect(SelectionRule.select(inventory, shell: shell)?.name == .embedded)
        #expect(SelectionRule.select(inventory, shell: shell, hasSeed: false)?.name.description == "v1.0.0")
        ledger.feed.trust = nil
        let trusting = Inventory(path: device.store, ledger: ledger, bundles: inventory.bundles)
        #expect(SelectionRule.select(trusting, shell: shell)?.name.description == "v1.0.0")
    }
}

extension Follower {
    /// Returns the offer of one run, and records the changes in `inventory`.
    fileprivate func offer(_ inventory: inout Inventory) async throws -> ArchiveOffer {
        var stepsLeft = OfferRequest.maximumSteps
        while true {
            let request = OfferRequest(
                inventory: inventory, shell: try SemanticVersion(parsing: "1.0.0"), appId: nil, stepsLeft: stepsLeft)
            switch try await channel().latestOffer(for: request) {
            case .offer(let offer): return offer
            case .remember(let update): inventory = inventory.recording(update)
            }
            stepsLeft -= 1
        }
    }
}
