import ArchiveSource
import BundleCore
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct RollbackTests {
    private func settled(_ feed: TrustFeed, sequence: Int = 5, _ version: String = "1.1.0") async throws -> Follower {
        let device = try Follower(feed)
        try feed.offer(sequence, [version])
        try await device.installs(version)
        return device
    }

    @Test func `TUF-145: rejects a lower sequence`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(4, ["1.2.0"])
        let failure = try await device.refuses(.rollbackAttempt)
        #expect(failure.subject == "channel stable")
        #expect(try device.sequence() == 5)
    }

    @Test func `TUF-146: rejects an equal sequence with other bytes`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(5, ["1.2.0"])
        try await device.refuses(.rollbackAttempt)
    }

    @Test func `TUF-147: rejects an equal sequence with another expiry`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(5, ["1.1.0"]) { $0.expires = Day.number(41) }
        try await device.refuses(.rollbackAttempt)
    }

    @Test func `TUF-148: accepts the same document with other signatures`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(
            feed, trusting: feed.pinned(feed.trustRoot { $0.set(.channel, [feed.channel, feed.keys[3]]) }))
        let document = feed.document(5, [try feed.release("1.1.0")])
        try feed.offer(document)
        try await device.installs("1.1.0")
        try feed.offer(document, by: [feed.keys[3], feed.keys[7]])
        try await device.stays(at: "v1.1.0")
        #expect(try device.memory().followed?.signers == [feed.keys[3].id])
    }

    @Test func `TUF-149: keeps the client if a higher sequence offers a lower version`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(6, ["1.0.0"])
        try await device.stays(at: "v1.1.0")
        #expect(try device.sequence() == 6)
    }

    @Test func `TUF-150: keeps the client if a flat manifest offers a lower version`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = "/manifest.json"
        try feed.offerFlat("1.1.0")
        try await device.installs("1.1.0")
        try feed.offerFlat("1.0.0")
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-151: keeps the highest minimum version`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        let floor = try SemanticVersion(parsing: "1.1.0")
        try feed.offer(6, ["1.1.0"]) { $0.minimumVersion = floor }
        try await device.stays(at: "v1.1.0")
        try feed.offer(7, ["1.0.9", "1.1.0"]) { $0.minimumVersion = try SemanticVersion(parsing: "0.1.0") }
        try await device.stays(at: "v1.1.0")
        #expect(try device.memory().followed?.minimumVersion == floor)
        try feed.offer(8, ["1.0.9"]) { $0.recalled = [FeedMemory.Recall(version: floor, reason: "")] }
        // Only a version below the minimum remains.
        var failure: UpdateFailure?
        do { _ = try await device.update() } catch { failure = UpdateFailure(error) }
        #expect(failure?.code == .rollbackAttempt)
        #expect(try device.memory().followed?.minimumVersion == floor)
        try device.runs("embedded")
    }

    @Test func `TUF-152: recalls an installed client below the minimum version`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(6, ["1.1.0"]) { $0.minimumVersion = try SemanticVersion(parsing: "1.1.1") }
        var failure: UpdateFailure?
        do { _ = try await device.update() } catch { failure = UpdateFailure(error) }
        #expect(failure?.code == .rollbackAttempt)
        try device.runs("embedded")
        try feed.offer(7, ["1.1.1"])
        try await device.installs("1.1.1")
    }

    @Test func `TUF-153: rejects the document from before a recall`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, sequence: 1, "1.0.0")
        let before = feed.document(2, [try feed.release("1.1.0")])
        try feed.offer(before)
        try await device.installs("1.1.0")
        let bad = FeedMemory.Recall(version: try SemanticVersion(parsing: "1.1.0"), reason: "white page")
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.recalled = [bad] }
        try await device.stays(at: "v1.0.0")
        try feed.offer(before)
        try await device.refuses(.rollbackAttempt)
        try device.runs("v1.0.0")
        #expect(try device.memory().followed?.recalled == [bad])
    }

    @Test func `TUF-154: stores the sequence of each channel separately`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        device.path = "/channels/beta.json"
        try feed.offer(1, ["1.2.0"]) { $0.channel = "beta" }
        try await device.installs("1.2.0")
        device.path = "/channels/stable.json"
        try feed.offer(4, ["1.3.0"])
        try await device.refuses(.rollbackAttempt)
        #expect(try device.memory().channels.map(\.name) == ["stable", "beta"])
    }

    // MARK: Fast-forward

    @Test(
        arguments: [
            ("TUF-155: a step of 2^20", 1 << 20, nil),
            ("TUF-156: a step of 2^20 + 1", (1 << 20) + 1, .manifestMalformed),
        ] as [(String, Int, FailureCode?)])
    func `rejects a sequence that jumps too far`(name: String, step: Int, code: FailureCode?) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(5 + step, ["1.2.0"])
        guard let code else { return try await device.installs("1.2.0") }
        let failure = try await device.refuses(code)
        #expect(failure.message.contains("Replace the channel key"))
    }

    @Test func `TUF-157: accepts a lower sequence after the channel key was replaced`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, sequence: JSONValue.maximumInteger)
        try feed.offer(6, ["1.2.0"])
        try await device.refuses(.rollbackAttempt)
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(6, ["1.2.0"], by: [feed.keys[3]])
        try await device.installs("1.2.0")
        #expect(try device.sequence() == 6)
        try feed.offer(5, ["1.3.0"], by: [feed.keys[3]])
        try await device.refuses(.rollbackAttempt)
    }

    @Test(arguments: [
        ("TUF-158: release", TrustRole.release), ("TUF-159: root", .root),
    ]) func `rejects a lower sequence after another role's key was replaced`(name: String, role: TrustRole) async throws
    {
        let feed = try TrustFeed()
        let device = try await settled(feed, sequence: JSONValue.maximumInteger)
        try feed.publish(2, by: [feed.root, feed.keys[3]]) { $0.set(role, [feed.keys[3]]) }
        try feed.offer(6, ["1.1.0"])
        try await device.refuses(.rollbackAttempt, learnt: true)
        #expect(try device.sequence() == JSONValue.maximumInteger)
    }

    @Test func `TUF-160: accepts a lower sequence only after the first channel key was revoked`()
        async throws
    {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        let both = [feed.channel, feed.keys[3]]
        try feed.publish(2) { $0.set(.channel, both) }
        try feed.offer(1, ["1.2.0"], by: [feed.keys[3]])
        try await device.refuses(.rollbackAttempt, learnt: true)
        try feed.publish(3) {
            $0.set(.channel, both)
            $0.revoked = [feed.channel.id]
        }
        try await device.installs("1.2.0")
        #expect(try device.sequence() == 1)
    }

    @Test func `TUF-308: drops a minimum version after the channel key was replaced`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(6, ["1.1.0"]) { $0.minimumVersion = try SemanticVersion(parsing: "999999.0.0") }
        _ = try? await device.update()
        #expect(try device.memory().followed?.minimumVersion?.description == "999999.0.0")
        try feed.offer(7, ["1.2.0"])
        _ = try? await device.update()
        #expect(try device.inventory().bundle(.archive(SemanticVersion(parsing: "1.2.0"))) == nil)
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(8, ["1.2.0"], by: [feed.keys[3]])
        try await device.installs("1.2.0")
        #expect(try device.memory().followed?.minimumVersion == nil)
    }

    @Test func `TUF-309: keeps an installed client after its key was revoked`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) {
            $0.set(.release, [feed.keys[3]])
            $0.revoked = [feed.release.id]
        }
        try feed.offer(6, ["1.1.0"])
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-161: drops a signed time after the channel key was replaced`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        let end = Timestamp(clamping: Timestamp.latestSecond)
        try feed.offer(6, ["1.1.0"]) {
            $0.issuedAt = Timestamp(clamping: Timestamp.latestSecond - 9)
            $0.expires = end
        }
        try await device.stays(at: "v1.1.0")
        try feed.offer(7, ["1.2.0"])
        // The root looks expired as well.
        try await device.refuses(.expired)
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(7, ["1.2.0"], by: [feed.keys[3]])
        try await device.installs("1.2.0")
        #expect(try device.memory().clock == Day.number(9))
    }
}
