import BundleValues
import Testing
import Glibc

@testable import BundleFormats
@testable import BundleCore

/// Walks over random policies, networks and times by a clock of its own. `FETCH_WALK_STEPS` sets the number of steps.
@Suite("FetchRule, random walk")
struct FetchWalkTests {
    /// A device that downloads by the minute.
    private struct Device {
        var policy = FetchPolicy()
        var minute = 0
        var isMetered = false
        var use: MeteredUse?
        var bucket: TokenBucket?
        /// The bytes of each metered month.
        var spent: [String: Int] = [:]
        /// The downloaded part of the release, and its size.
        var (part, size) = (0, 0)
        var load = FetchRule.Load.archive

        var time: ActivationWindows.LocalTime { .init(day: minute / 1440 % 7, minute: minute % 1440) }
        var date: Timestamp { Timestamp(clamping: 1_800_000_000 + minute * 60) }
        var link: FetchRule.Link { .init(isMetered: isMetered, used: MeteredUse.bytes(of: use, at: date)) }
    }

    private static var steps: Int { getenv("FETCH_WALK_STEPS").flatMap { Int(String(cString: $0)) } ?? 300 }
    private static let hours = ["22:00-05:00", "00:00-24:00", "Mon-Fri 09:00-17:00", "12:00-12:30,18:00-19:00"]

    private static func randomPolicy(_ random: inout some RandomNumberGenerator) throws -> FetchPolicy {
        var policy = FetchPolicy()
        if Bool.random(using: &random) { policy.rate = .random(in: 8000...400_000, using: &random) }
        if Bool.random(using: &random) {
            policy.hours = [try ActivationWindows(parsing: hours.randomElement(using: &random) ?? "")]
        }
        if Bool.random(using: &random) { policy.meteredBudget = .random(in: 0...40_000_000, using: &random) }
        policy.deltas = DeltaUse.words.randomElement(using: &random) ?? .prefer
        return policy
    }

    /// Whether `joined` allows something that `policy` refuses.
    private static func isLooser(_ joined: FetchPolicy, than policy: FetchPolicy, isUrgent: Bool) -> Bool {
        let isBudgetLooser = policy.meteredBudget.map { (joined.meteredBudget ?? .max) > $0 } ?? false
        let isRateLooser = policy.rate.map { (joined.rate ?? .max) > $0 } ?? false
        let areHoursLooser = !policy.hours.allSatisfy(joined.hours.contains)
        let areDeltasLooser =
            joined.deltas.allowsArchive && !policy.deltas.allowsArchive
            || joined.deltas.allowsDelta && !policy.deltas.allowsDelta
        return isBudgetLooser || areDeltasLooser || !isUrgent && (isRateLooser || areHoursLooser)
    }

    @Test func `receives no byte outside the policies of device and channel, and none twice`() throws {
        var random = SystemRandomNumberGenerator()
        var device = Device()
        var finished = 0
        for _ in 0..<Self.steps {
            let (own, channel) = (try Self.randomPolicy(&random), try Self.randomPolicy(&random))
            let isUrgent = Int.random(in: 0..<8, using: &random) == 0
            device.policy = own.joined(with: channel, isUrgent: isUrgent)
            #expect(!Self.isLooser(device.policy, than: own, isUrgent: isUrgent))
            #expect(!Self.isLooser(device.policy, than: channel, isUrgent: isUrgent))
            device.isMetered = Bool.random(using: &random)
            device.minute += .random(in: 0...2000, using: &random)
            if device.part == device.size {
                device.load = [.delta, .archive, .files].randomElement(using: &random) ?? .archive
                (device.part, device.size) = (0, .random(in: 1...30_000_000, using: &random))
            }
            finished += try Self.download(&device, minutes: 90) ? 1 : 0
        }
        #expect(finished > 0)
    }

    /// Downloads for at most `minutes`, pauses at the end of the hours, and returns whether the release is complete.
    private static func download(_ device: inout Device, minutes: Int) throws -> Bool {
        let rest = device.size - device.part
        if FetchRule.wait(device.policy, load: device.load, bytes: rest, on: device.link, at: device.time) != nil {
            return false
        }
        let month = device.date
        let budget = device.policy.meteredBudget ?? .max
        if device.isMetered { device.use = .adding(rest, to: device.use, at: month) }
        var received = 0
        device.bucket = device.policy.rate.map { TokenBucket(rate: $0, now: .seconds(device.minute * 60)) }
        let begin = device.minute
        for _ in 0..<minutes where device.part < device.size {
            guard device.policy.hours.allSatisfy({ $0.isOpen(at: device.time) }) else { break }
            let count = Self.minuteOfBytes(&device, from: begin)
            received += count
            device.part += count
            device.minute += 1
        }
        if let rate = device.bucket?.rate {
            // One buffer may exceed the tokens.
            #expect(received <= rate * (device.minute - begin) * 60 + rate / 4 + 16_384)
        }
        if device.isMetered {
            device.use = .adding(received - rest, to: device.use, at: month)
            let spent = (device.spent[String(month.description.prefix(7))] ?? 0) + received
            device.spent[String(month.description.prefix(7))] = spent
            #expect(MeteredUse.bytes(of: device.use, at: month) == spent)
            #expect(device.policy.meteredBudget == nil || spent <= budget)
        }
        #expect(device.part <= device.size)
        return device.part == device.size
    }

    private static func minuteOfBytes(_ device: inout Device, from begin: Int) -> Int {
        var count = 0
        for tenth in 0..<600 where device.part + count < device.size {
            let now = Duration.seconds(device.minute * 60) + .milliseconds(tenth * 100)
            while device.part + count < device.size, device.bucket?.delay(at: now) ?? .zero == .zero {
                let piece = min(16_384, device.size - device.part - count)
                count += piece
                device.bucket?.receive(piece, at: now)
                if device.bucket == nil, count >= 3_000_000 { return count }
            }
        }
        return count
    }
}
