import BundleSigning
import BundleValues
@testable import BundleShell
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite("RosterReading") struct RosterReadingTests {
    private static let now = Timestamp(clamping: 1_800_000_000)
    private let version: ClientVersion

    init() throws { version = .archive(try SemanticVersion(parsing: "1.5.0")) }

    private static func identity(_ deviceId: String? = nil, followsChannel: Bool = true) -> RosterIdentity {
        RosterIdentity(
            name: "Lobby 3", deviceId: deviceId, followsChannel: followsChannel, program: "0.9.0",
            interval: .seconds(900))
    }

    private static func post(_ ledger: Ledger, _ condition: DeviceCondition = DeviceCondition()) -> RosterPost {
        RosterReading.post(of: "3f9a0b1c2d3e4f50", identity(), ledger, condition)
    }

    private func launched() throws -> Ledger {
        var ledger = Ledger()
        ledger.current = .installed(version)
        ledger.launch = Launch(
            name: .installed(version), tokenSha256: try SHA256Digest.of([]), at: Self.now, isTrial: true, verdict: nil)
        return ledger
    }

    @Test func `reports the client to launch before the first launch`() {
        var ledger = Ledger()
        ledger.current = .installed(version)
        let post = Self.post(ledger)
        #expect(post.runs == nil && post.state == .none && post.next == "1.5.0")
        #expect(Self.post(Ledger()).next == nil)
    }

    @Test func `reports the state of the launched client`() throws {
        var ledger = try launched()
        #expect(Self.post(ledger).runs == "1.5.0" && Self.post(ledger).state == .trial)
        ledger.settleGood(at: Self.now)
        #expect(Self.post(ledger).state == .good)
        ledger.fail(version, by: StartFailure(.reported, detail: "white", at: Self.now))
        #expect(Self.post(ledger).state == .failed)
        ledger.fail(version, by: StartFailure(.reported, detail: "white", at: Self.now))
        #expect(Self.post(ledger).state == .blocked && Self.post(ledger).blocked == ["1.5.0"])
    }

    @Test func `reports the newest failed start in at most 300 bytes, unless the operator leaves it out`() throws {
        var ledger = try launched()
        let detail = "the page said: " + String(repeating: "é", count: 250)
        ledger.fail(version, by: StartFailure(.reported, detail: detail, at: Self.now))
        let failure = try #require(Self.post(ledger).failure)
        #expect(failure.hasPrefix("1.5.0 reported: the page said: éé") && (298...300).contains(failure.utf8.count))
        let quiet = RosterIdentity(
            name: "", deviceId: nil, followsChannel: true, program: "0.9.0", interval: .seconds(900),
            tags: ["site=Lisbon"], sendsErrors: false)
        let post = RosterReading.post(of: "3f9a0b1c2d3e4f50", quiet, ledger, DeviceCondition())
        #expect(post.failure == nil && post.tags == ["site=Lisbon"])
    }

    @Test func `reports what the next client waits for`() throws {
        var ledger = try launched()
        #expect(Self.post(ledger).waiting == nil)
        ledger.pending = .embedded
        var condition = DeviceCondition()
        #expect(Self.post(ledger, condition).waiting == .page)
        condition.isOutsideWindows = true
        #expect(Self.post(ledger, condition).waiting == .window)
        ledger.pending = nil
        ledger.shell = try SemanticVersion(parsing: "1.0.0")
        ledger.feed.neededShell = try SemanticVersion(parsing: "2.0.0")
        #expect(Self.post(ledger, condition).waiting == .shell)
    }

    @Test(arguments: [(FetchWait.WaitCause.hours, RosterPost.WaitReason.hours), (.budget, .budget), (.deltas, .deltas)])
    func `reports what a download waits for`(reason: FetchWait.WaitCause, waiting: RosterPost.WaitReason) throws {
        var ledger = try launched()
        let next = ClientVersion.archive(try SemanticVersion(parsing: "1.6.0"))
        ledger.setWaiting(next, because: FetchWait(reason, "detail"), at: Self.now)
        #expect(Self.post(ledger).waiting == waiting)
        ledger.forgetWanted(of: .archive)
        #expect(Self.post(ledger).waiting == nil)
    }

    @Test func `reports a newer release that is paused or outside the rollout`() throws {
        func waiting(leftOut: [String] = [], paused: [String] = []) throws -> RosterPost.WaitReason? {
            var ledger = try launched()
            ledger.feed.follow(
                FeedMemory.ChannelMemory(
                    name: "stable", sequence: 1, payloadSha256: try SHA256Digest.of([]), signers: [],
                    issuedAt: Self.now, expires: Self.now, recalled: [], minimumVersion: nil,
                    leftOut: try leftOut.map { try SemanticVersion(parsing: $0) },
                    paused: try paused.map { try SemanticVersion(parsing: $0) }))
            return Self.post(ledger).waiting
        }
        #expect(try waiting(paused: ["1.4.0", "1.5.0"]) == nil)
        #expect(try waiting(paused: ["1.4.0", "1.6.0"]) == .paused)
        #expect(try waiting(leftOut: ["1.5.0"]) == nil)
        #expect(try waiting(leftOut: ["1.6.0"], paused: ["1.6.0"]) == .rollout)
    }

    @Test func `reports the failure of the last check, and otherwise of the last installation`() throws {
        var ledger = try launched()
        ledger.miss(version, after: UpdateFailure(.diskFull, subject: "", "The disk is full."), at: Self.now)
        #expect(Self.post(ledger).code == "diskFull")
        var condition = DeviceCondition()
        condition.code = "networkUnavailable"
        #expect(Self.post(ledger, condition).code == "networkUnavailable")
    }

    @Test func `sends the status of the server and the blocked version with the code`() throws {
        let url = try FetchURL(parsing: "https://updates.example.com/x")
        let failure = UpdateFailure(FetchError.httpStatus(403, url, retryAfter: nil))
        #expect(RosterReading.code(failure) == "httpStatus:403")
        #expect(RosterReading.code(UpdateFailure(.diskFull, subject: "", "")) == "diskFull")
        var ledger = try launched()
        ledger.miss(version, after: UpdateFailure(.versionBlocked, subject: "", ""), at: Self.now)
        #expect(Self.post(ledger).code == "versionBlocked:\(version)")
    }

    @Test func `identifies a device by the same ID as rollouts`() throws {
        func device(_ identity: RosterIdentity, machine: String?, _ feed: FeedMemory = FeedMemory()) throws -> String? {
            var ledger = Ledger()
            ledger.feed = feed
            return try RosterReading.device(ledger, identity, machine: machine, keyId: "key")
        }
        func digits(_ id: String) throws -> String { String(try DeviceGroup.single(id).suffix(16)) }
        var drawn = FeedMemory()
        (drawn.deviceId, drawn.deviceIdSource) = ("drawn", .drawn)
        var given = FeedMemory()
        (given.deviceId, given.deviceIdSource) = ("given", .given)
        #expect(try device(Self.identity("flag"), machine: "machine", given) == digits("flag"))
        #expect(try device(Self.identity(), machine: "machine", given) == digits("given"))
        #expect(try device(Self.identity(), machine: "machine", drawn) == digits("machine"))
        #expect(try device(Self.identity(), machine: nil, drawn) == digits("drawn"))
        // A channel gives the device its ID at the first check.
        #expect(try device(Self.identity(), machine: nil) == nil)
        #expect(try device(Self.identity(followsChannel: false), machine: nil) == digits("key"))
    }
}
