import BundleValues
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite("FetchPolicy")
struct FetchPolicyTests {
    private static let night = "22:00-05:00"
    private static let evening = "20:00-23:00"

    private static func policy(_ change: (inout FetchPolicy) throws -> Void) rethrows -> FetchPolicy {
        var policy = FetchPolicy()
        try change(&policy)
        return policy
    }

    @Test(
        arguments: [
            (nil, nil, nil), (nil, 9000, 9000), (9000, nil, 9000), (9000, 20_000, 9000), (20_000, 9000, 9000),
        ] as [(Int?, Int?, Int?)]) func `uses the lower of two limits`(device: Int?, channel: Int?, joined: Int?)
    {
        let both = Self.policy { ($0.rate, $0.meteredBudget) = (device, device) }
            .joined(with: Self.policy { ($0.rate, $0.meteredBudget) = (channel, channel) })
        #expect(both.rate == joined)
        #expect(both.meteredBudget == joined)
    }

    @Test(arguments: [
        ("prefer", "prefer", "prefer"), ("prefer", "only", "only"), ("prefer", "never", "never"),
        ("only", "prefer", "only"), ("only", "only", "only"), ("only", "never", "neither"),
        ("never", "prefer", "never"), ("never", "only", "neither"), ("never", "never", "never"),
    ]) func `allows the deltas that both policies allow`(device: String, channel: String, joined: String) {
        let both = Self.policy { $0.deltas = DeltaUse(rawValue: device) ?? .prefer }
            .joined(with: Self.policy { $0.deltas = DeltaUse(rawValue: channel) ?? .prefer })
        #expect(both.deltas.rawValue == joined)
    }

    @Test func `allows downloads only in the hours of both policies`() throws {
        let both = try Self.policy { $0.hours = [try ActivationWindows(parsing: Self.night)] }
            .joined(with: try Self.policy { $0.hours = [try ActivationWindows(parsing: Self.evening)] })
        let open = (0..<24).filter { hour in
            FetchRule.wait(
                both, load: .archive, bytes: 1, on: .init(isMetered: false, used: 0),
                at: .init(day: 2, minute: hour * 60))
                == nil
        }
        #expect(open == [22])
    }

    @Test func `uses the mirrors of the device before those of the channel, each once`() throws {
        let (near, far) = (
            try FetchPolicy.mirror("http://cache.local:8080"), try FetchPolicy.mirror("https://a.example/f/")
        )
        let both = Self.policy { $0.mirrors = [near] }.joined(with: Self.policy { $0.mirrors = [far, near] })
        #expect(both.mirrors == [near, far])
    }

    @Test func `keeps the budget and the use of deltas for an urgent release without hours and rate`() throws {
        let policy = try Self.policy {
            ($0.rate, $0.meteredBudget, $0.deltas) = (9000, 5, .only)
            $0.hours = [try ActivationWindows(parsing: Self.night)]
        }
        let joined = FetchPolicy().joined(with: policy, isUrgent: true)
        #expect(joined == Self.policy { ($0.meteredBudget, $0.deltas) = (5, .only) })
    }

    @Test func `reads the members that it writes`() throws {
        let policy = try Self.policy {
            ($0.rate, $0.meteredBudget, $0.deltas) = (256_000, 2_000_000, .never)
            $0.hours = [try ActivationWindows(parsing: "Mon-Fri 22:00-05:00,Sun 00:00-24:00")]
            $0.mirrors = [try FetchPolicy.mirror("https://a.example/f")]
        }
        let json = try #require(policy.json)
        #expect(try FetchPolicy(MemberReader(json, of: "network")) == policy)
        #expect(FetchPolicy().json == nil)
    }

    @Test(arguments: [
        #"{"rate":7999}"#, #"{"rate":"fast"}"#, #"{"hours":"22-5"}"#, #"{"deltas":"neither"}"#, #"{"deltas":"maybe"}"#,
        #"{"mirrors":["file:///feed/"]}"#, #"{"mirrors":["https://a.example/?x"]}"#,
        #"{"mirrors":"https://a.example/"}"#,
        #"{"mirrors":["http://a/","http://b/","http://c/","http://d/","http://e/","http://f/","http://g/","http://h/","http://i/"]}"#,
        #"{"meteredBudget":-1}"#,
    ]) func `refuses an invalid member`(text: String) throws {
        let value = try JSONScanner.parse(Array(text.utf8), maximumBytes: 4096)
        #expect(throws: MemberReader.Refusal.self) { try FetchPolicy(MemberReader(value, of: "network")) }
    }
}

@Suite("FetchRule")
struct FetchRuleTests {
    private static let noon = ActivationWindows.LocalTime(day: 2, minute: 720)

    private static func wait(
        _ load: FetchRule.Load, _ bytes: Int?, used: Int = 0, isMetered: Bool = true,
        _ change: (inout FetchPolicy) throws -> Void
    ) rethrows -> FetchWait.WaitCause? {
        var policy = FetchPolicy()
        try change(&policy)
        return FetchRule.wait(
            policy, load: load, bytes: bytes, on: .init(isMetered: isMetered, used: used), at: noon)?.reason
    }

    @Test(
        arguments: [
            (.archive, 30, 0, .budget), (.delta, 8, 0, nil), (.delta, 8, 12, nil), (.delta, 8, 13, .budget),
            (.files, nil, 0, .budget), (.archive, 20, 0, nil), (.archive, 1, 40, .budget), (.archive, 0, 40, nil),
        ] as [(FetchRule.Load, Int?, Int, FetchWait.WaitCause?)])
    func `waits for another network if the budget is too small`(
        load: FetchRule.Load, bytes: Int?, used: Int, reason: FetchWait.WaitCause?
    ) {
        #expect(Self.wait(load, bytes, used: used) { $0.meteredBudget = 20 } == reason)
        #expect(Self.wait(load, bytes, used: used, isMetered: false) { $0.meteredBudget = 20 } == nil)
    }

    @Test(
        arguments: [
            (.archive, .only, .deltas), (.delta, .only, nil), (.delta, .never, .deltas), (.archive, .never, nil),
            (.files, .only, nil), (.delta, .neither, .deltas), (.archive, .neither, .deltas),
        ] as [(FetchRule.Load, DeltaUse, FetchWait.WaitCause?)])
    func `waits while the setting for deltas excludes the download`(
        load: FetchRule.Load, use: DeltaUse, reason: FetchWait.WaitCause?
    ) {
        #expect(Self.wait(load, 1) { $0.deltas = use } == reason)
    }

    @Test func `a device without a client keeps only the rate and the mirrors`() throws {
        var policy = FetchPolicy()
        (policy.rate, policy.meteredBudget, policy.deltas) = (9000, 5, .neither)
        policy.hours = [try ActivationWindows(parsing: "22:00-05:00")]
        policy.mirrors = [try FetchPolicy.mirror("https://a.example/f")]
        #expect(FetchRule.conditions(policy, hasClient: true) == policy)
        var rest = FetchPolicy()
        (rest.rate, rest.mirrors) = (policy.rate, policy.mirrors)
        #expect(FetchRule.conditions(policy, hasClient: false) == rest)
    }

    @Test func `names the minutes until the hours begin`() throws {
        var policy = FetchPolicy()
        policy.hours = [try ActivationWindows(parsing: "22:00-05:00")]
        let wait = FetchRule.wait(policy, load: .archive, bytes: 1, on: .init(isMetered: false, used: 0), at: Self.noon)
        #expect(wait?.minutes == 600)
        #expect(wait?.description == "the hours for downloads are 22:00-05:00; they begin in 10h")
    }

    @Test(arguments: [(1, "1m"), (60, "1h"), (1019, "16h 59m"), (1370, "22h 50m"), (8580, "5d 23h"), (0, "0m")])
    func `names the time until the hours in two units`(minutes: Int, words: String) {
        #expect(FetchWait(.hours, "closed", minutes: minutes).description == "closed; they begin in \(words)")
    }

    @Test func `names no minutes if the hours of device and channel never meet`() throws {
        let hours = [try ActivationWindows(parsing: "01:00-02:00"), try ActivationWindows(parsing: "03:00-04:00")]
        #expect(FetchRule.minutesUntilOpen(hours, at: Self.noon) == nil)
    }

    @Test func `counts the bytes of each calendar month`() throws {
        let (november, december) = (
            try Timestamp(parsing: "2026-11-30T23:59:59Z"), try Timestamp(parsing: "2026-12-01T00:00:00Z")
        )
        let use = MeteredUse.adding(7, to: MeteredUse.adding(5, to: nil, at: november), at: november)
        #expect(use == MeteredUse(month: "2026-11", bytes: 12))
        #expect(MeteredUse.bytes(of: use, at: december) == 0)
        #expect(MeteredUse.adding(-20, to: use, at: november).bytes == 0)
        #expect(MeteredUse.adding(3, to: use, at: december) == MeteredUse(month: "2026-12", bytes: 3))
    }
}
