import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

/// Tests the stored state of a feed, in the ledger and as a value.
struct FeedMemoryTests {
    private static func channel(
        _ name: String, _ sequence: Int = 5, issued: Int = 100, floor: String = "1.0.0"
    ) throws -> FeedMemory.ChannelMemory {
        FeedMemory.ChannelMemory(
            name: name, sequence: sequence, payloadSha256: try .of(Array(name.utf8)), signers: ["a", "b"],
            issuedAt: Timestamp(clamping: issued), expires: Timestamp(clamping: issued + 1000),
            recalled: [FeedMemory.Recall(version: try Sample.version("1.1.0"), reason: "white \"page\"\n")],
            reinstated: [.init(version: try Sample.version("1.0.5"), sequence: 4)],
            minimumVersion: try Sample.version(floor),
            leftOut: [try Sample.version("1.3.0"), try Sample.version("1.4.0-rc.1")],
            paused: [try Sample.version("1.6.0")], urgent: [try Sample.version("1.5.0")], busyLimit: 120)
    }

    private static func trust(_ version: Int = 2) throws -> FeedMemory.TrustMemory {
        FeedMemory.TrustMemory(
            version: version, document: Array("root \(version)".utf8), chain: [try .of([1]), try .of([2])],
            revokedKeys: ["c"])
    }

    private static func memory() throws -> FeedMemory {
        var memory = FeedMemory()
        memory.trust = try trust()
        memory.neededShell = try Sample.version("9.0.0")
        memory.deviceId = "dévice \u{1F600}"
        memory.deviceIdSource = .given
        memory.groups = ["eu", "qa"]
        memory.follow(try channel("beta", JSONValue.maximumInteger, issued: 200))
        memory.follow(try channel("stable"))
        return memory
    }

    // MARK: On the disk

    @Test func `reads the state of a feed as it was written`() throws {
        let folder = try TemporaryDirectory.ofTests()
        for memory in [FeedMemory(), try Self.memory()] {
            var ledger = Ledger()
            ledger.feed = memory
            try LedgerFile.write(ledger, to: folder.directory)
            let read = try #require(try LedgerFile.read(folder.directory))
            #expect(read == ledger)
            #expect(read.feed == memory)
            #expect(read.object["schema"] == .integer(4))
        }
    }

    private static func failure(spoiling spoil: (inout JSONObject) -> Void) throws -> UpdateFailure? {
        let folder = try TemporaryDirectory.ofTests()
        var ledger = Ledger()
        ledger.feed = try memory()
        var object = ledger.object
        var feed = object["feed"]?.objectValue ?? [:]
        spoil(&feed)
        object["feed"] = .object(feed)
        object["checksum"] = .string(try SHA256Digest.of(JSONWriter.bytes(of: .object(object))).hex)
        let bytes = JSONWriter.bytes(of: .object(object))
        try bytes.withUnsafeBytes { try folder.directory.createFile(StoreLayout.ledger, with: $0) }
        do {
            _ = try LedgerFile.read(folder.directory)
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    @Test(
        arguments: [
            ("trust", .string("x")), ("clock", .string("yesterday")), ("clock", .integer(1)), ("deviceId", .integer(1)),
            ("channels", .null), ("channels", .object([:])), ("channels", .array([.integer(1)])),
        ] as [(String, JSONValue)])
    func `reports a damaged member of the feed by name`(member: String, value: JSONValue) throws {
        let failure = try #require(try Self.failure { $0[member] = value })
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("ledger.feed.\(member)"), "\(failure.message)")
    }

    @Test(
        arguments: [
            ("version", .integer(-1)), ("version", .null), ("document", .string("e30")), ("document", .null),
            ("chain", .array([.string("abc")])), ("chain", .string("x")), ("revokedKeys", .array([.integer(1)])),
        ] as [(String, JSONValue)])
    func `reports a damaged member of the trust root by name`(member: String, value: JSONValue) throws {
        let failure = try #require(
            try Self.failure { feed in
                var trust = feed["trust"]?.objectValue ?? [:]
                trust[member] = value
                feed["trust"] = .object(trust)
            })
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("ledger.feed.trust.\(member)"), "\(failure.message)")
    }

    @Test(
        arguments: [
            ("name", .null), ("sequence", .integer(-1)), ("sequence", .string("5")), ("payloadSha256", .string("x")),
            ("signers", .array([.null])), ("issuedAt", .null), ("expires", .string("2027-01-01")),
            ("recalled", .array([.object([:])])), ("recalled", .null), ("reinstated", .array([.string("1.0.0")])),
            ("minimumVersion", .string("1")),
            ("leftOut", .array([.string("v1.0.0")])),
        ] as [(String, JSONValue)])
    func `reports a damaged member of a channel by name`(member: String, value: JSONValue) throws {
        let failure = try #require(
            try Self.failure { feed in
                var channels = feed["channels"]?.arrayValue ?? []
                var channel = channels[1].objectValue ?? [:]
                channel[member] = value
                channels[1] = .object(channel)
                feed["channels"] = .array(channels)
            })
        #expect(failure.code == .storeDamaged)
        #expect(failure.message.contains("\(member)"), "\(failure.message)")
    }

    @Test func `refuses a channel that is listed twice`() throws {
        let failure = try Self.failure { feed in
            let channels = feed["channels"]?.arrayValue ?? []
            feed["channels"] = .array(channels + channels)
        }
        #expect(failure?.message.contains("ledger.feed.channels names a channel twice") == true)
        #expect(try Self.failure { _ in } == nil)
    }

    // MARK: As a value

    @Test func `follows the last channel, and its clock never goes back`() throws {
        var memory = try Self.memory()
        #expect(memory.followed?.name == "stable")
        #expect(memory.clock == Timestamp(clamping: 200))
        memory.follow(try Self.channel("beta", 9, issued: 150))
        #expect(memory.channels.map(\.name) == ["stable", "beta"])
        #expect(memory.channel("beta")?.sequence == 9)
        #expect(memory.clock == Timestamp(clamping: 200))
    }

    @Test func `only the followed channel withdraws versions`() throws {
        var memory = FeedMemory()
        #expect(memory.withdrawal(of: try Sample.version("1.1.0")) == nil)
        memory.follow(try Self.channel("stable"))
        #expect(memory.withdrawal(of: try Sample.version("1.1.0")) == .recalled(reason: "white \"page\"\n"))
        #expect(memory.withdrawal(of: try Sample.version("0.9.9")) == .belowFloor(try Sample.version("1.0.0")))
        #expect(memory.withdrawal(of: try Sample.version("1.3.0")) == .leftOut)
        #expect(memory.withdrawal(of: try Sample.version("1.0.0")) == nil)
        memory.follow(
            FeedMemory.ChannelMemory(
                name: "beta", sequence: 1, payloadSha256: try .of([]), signers: [], issuedAt: Timestamp(clamping: 0),
                expires: Timestamp(clamping: 1), recalled: [], minimumVersion: nil, leftOut: []))
        #expect(memory.withdrawal(of: try Sample.version("1.1.0")) == nil)
    }

    @Test func `adds an update to the unchanged state it is based on`() throws {
        let before = try Self.memory()
        var after = before
        after.follow(try Self.channel("stable", 6, issued: 300))
        after.trust = try Self.trust(3)
        #expect(FeedUpdate(before: before, after: after).added(to: before) == after)
    }

    @Test func `keeps newer values that another process stored`() throws {
        let before = try Self.memory()
        var after = before
        after.follow(try Self.channel("stable", 6, issued: 300))
        after.trust = try Self.trust(3)
        var other = before
        other.follow(try Self.channel("stable", 7, issued: 250))
        other.trust = try Self.trust(4)
        let known = FeedUpdate(before: before, after: after).added(to: other)
        #expect(known.followed?.sequence == 7)
        #expect(known.trust?.version == 4)
        #expect(known.clock == Timestamp(clamping: 300))
    }

    @Test func `keeps the newer channel file and the higher minimum version of two processes`() throws {
        let before = try Self.memory()
        var after = before
        after.follow(try Self.channel("stable", 7))
        var other = before
        other.follow(try Self.channel("stable", 6, floor: "1.0.9"))
        let known = FeedUpdate(before: before, after: after).added(to: other)
        #expect(known.followed?.sequence == 7)
        // The minimum version never decreases.
        #expect(try known.followed?.minimumVersion == Sample.version("1.0.9"))
        #expect(known.channels.map(\.name) == ["beta", "stable"])
    }

    private static func requiring(
        _ sequence: Int, _ minimum: String?, undoing undone: String? = nil
    ) throws -> FeedMemory.ChannelMemory {
        FeedMemory.ChannelMemory(
            name: "stable", sequence: sequence, payloadSha256: try .of([UInt8(sequence)]), signers: ["a"],
            issuedAt: Timestamp(clamping: sequence), expires: Timestamp(clamping: 1000), recalled: [],
            minimumVersion: try minimum.map(Sample.version), leftOut: [], undoneMinimum: try undone.map(Sample.version))
    }

    @Test func `forgets a minimum version only if a later file undoes it by name`() throws {
        let earlier = try Self.requiring(1, "1.1.0")
        func floor(_ next: FeedMemory.ChannelMemory) -> String? { next.following(earlier).minimumVersion?.description }
        #expect(floor(try Self.requiring(2, nil)) == "1.1.0")
        #expect(floor(try Self.requiring(2, "1.0.0")) == "1.1.0")
        #expect(floor(try Self.requiring(2, nil, undoing: "1.0.9")) == "1.1.0")
        #expect(floor(try Self.requiring(2, nil, undoing: "1.1.0")) == nil)
        #expect(floor(try Self.requiring(2, "1.0.5", undoing: "1.2.0")) == "1.0.5")
        let kept = try Self.requiring(2, "1.0.5", undoing: "1.2.0")
        let reader = try MemberReader(kept.json, of: "channel")
        #expect(try FeedMemory.ChannelMemory(reader) == kept)
    }

    private static func recalling(
        _ sequence: Int, _ recalled: [String], reinstating: [String] = [], reason: String = "bad"
    ) throws -> FeedMemory.ChannelMemory {
        FeedMemory.ChannelMemory(
            name: "stable", sequence: sequence, payloadSha256: try .of([UInt8(sequence)]), signers: ["a"],
            issuedAt: Timestamp(clamping: sequence), expires: Timestamp(clamping: 1000),
            recalled: try recalled.map { .init(version: try Sample.version($0), reason: reason) },
            reinstated: try reinstating.map { .init(version: try Sample.version($0), sequence: sequence) },
            minimumVersion: nil, leftOut: [])
    }

    @Test func `keeps the recalls of the previous channel file that it does not reinstate`() throws {
        let earlier = try Self.recalling(1, ["1.1.0", "1.2.0", "1.3.0"])
        let later = try Self.recalling(2, ["1.3.0"], reinstating: ["1.2.0"]).following(earlier)
        #expect(later.recalled.map(\.version.description) == ["1.3.0", "1.1.0"])
        #expect(try Self.recalling(3, []).following(later).recalled.map(\.version.description) == ["1.3.0", "1.1.0"])
    }

    @Test func `limits the number and length of carried recalls to the highest versions`() throws {
        let most = FeedMemory.ChannelMemory.mostCarried
        let versions = (0...most).map { "1.\($0).0" }
        let earlier = try Self.recalling(1, versions, reason: String(repeating: "é", count: 9000))
        let later = try Self.recalling(2, []).following(earlier)
        #expect(later.recalled.count == most)
        #expect(later.recalled.first?.version.description == "1.\(most).0")
        #expect(!later.recalled.contains { $0.version.description == "1.0.0" })
        #expect(later.recalled.allSatisfy { $0.reason.count == FeedMemory.ChannelMemory.longestReason })
        #expect(try Self.recalling(3, []).following(later).recalled == later.recalled)
    }

    @Test(arguments: [(6, 7), (7, 6)])
    func `keeps the recalls of two processes with files of one channel`(mine: Int, others: Int) throws {
        let before = FeedMemory()
        var (after, other) = (before, before)
        after.follow(try Self.recalling(mine, ["1.1.0"]))
        other.follow(try Self.recalling(others, ["1.2.0"]))
        let known = FeedUpdate(before: before, after: after).added(to: other)
        #expect(known.followed?.sequence == 7)
        #expect(Set(known.followed?.recalled.map(\.version.description) ?? []) == ["1.1.0", "1.2.0"])
    }

    @Test func `keeps the files of two processes with different channels`() throws {
        let before = try Self.memory()
        var after = before
        after.follow(try Self.channel("beta", JSONValue.maximumInteger - 1))
        var other = before
        other.follow(try Self.channel("stable", 6))
        let known = FeedUpdate(before: before, after: after).added(to: other)
        #expect(known.followed?.name == "beta")
        #expect(known.channel("beta")?.sequence == JSONValue.maximumInteger - 1)
        #expect(known.channel("stable")?.sequence == 6)
    }

    @Test func `prefers the channel file of the process with the newer trust root`() throws {
        let before = try Self.memory()
        var driven = before
        driven.follow(try Self.channel("stable", 900))
        var recovered = before
        recovered.trust = try Self.trust(3)
        recovered.follow(try Self.channel("stable", 6))
        for (after, other) in [(driven, recovered), (recovered, driven)] {
            let known = FeedUpdate(before: before, after: after).added(to: other)
            #expect(known.followed?.sequence == 6)
            #expect(known.trust?.version == 3)
        }
    }

    @Test func `keeps the device id that was stored first`() throws {
        let before = FeedMemory()
        var after = before
        after.deviceId = "late"
        after.follow(try Self.channel("stable"))
        var other = before
        #expect(FeedUpdate(before: before, after: after).added(to: other).deviceId == "late")
        other.deviceId = "first"
        #expect(FeedUpdate(before: before, after: after).added(to: other).deviceId == "first")
    }

    @Test func `keeps a clock that went back unless another process stored a later one`() throws {
        let before = try Self.memory()
        var after = before
        after.clock = Timestamp(clamping: 50)
        let news = FeedUpdate(before: before, after: after)
        #expect(news.added(to: before).clock == Timestamp(clamping: 50))
        var other = before
        other.clock = Timestamp(clamping: 400)
        #expect(news.added(to: other).clock == Timestamp(clamping: 400))
    }

    @Test func `distrusts a client whose signing keys are all revoked`() throws {
        var memory = FeedMemory()
        #expect(!memory.isDistrusted(signers: ["c"]))
        memory.trust = try Self.trust()
        #expect(memory.isDistrusted(signers: ["c"]))
        #expect(!memory.isDistrusted(signers: ["c", "d"]))
        #expect(!memory.isDistrusted(signers: []))
    }
}
