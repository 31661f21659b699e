import BundleCore
import BundleTesting

/// The events of a day and their times.
struct Agenda {
    enum Event: Sendable {
        case release, recall, expiry, renewal, lookAround
        case outage(Outage)
        case recovery
        case startUp(LaunchToken)
        /// A viewer reloads the page because another client is available.
        case reload
    }

    /// Before the first check, which comes within a minute.
    private static let firstRelease = Duration.seconds(2)
    private static let outageKinds = 3

    private var entries: [(at: Duration, event: Event)] = []
    private var generator: SeededGenerator
    private let length: Duration
    private var outages: Int

    init(length: Duration, seed: UInt64) {
        self.length = length
        generator = SeededGenerator(seed: seed)
        outages = Int.random(in: 0..<Self.outageKinds, using: &generator)
        add(.release, at: Self.firstRelease)
        add(.outage(nextOutage()), at: .seconds(minutes(50...70)))
        add(.recall, at: length * 45 / 100)
        add(.expiry, at: length * 70 / 100)
        for hour in 1...max(1, Int(length.components.seconds / 3600)) {
            add(.lookAround, at: .seconds(hour * 3600))
        }
    }

    var next: Duration? { entries.first?.at }

    mutating func add(_ event: Event, at moment: Duration) {
        let place = entries.firstIndex { $0.at > moment } ?? entries.endIndex
        entries.insert((moment, event), at: place)
    }

    /// Returns the next event that is due.
    mutating func take(at now: Duration) -> Event? {
        guard let first = entries.first, first.at <= now else { return nil }
        return entries.removeFirst().event
    }

    /// Two hours of a full day, proportionally less of a shorter one.
    var expiredFor: Duration { min(.seconds(7200), length * 15 / 100) }

    // MARK: Chance

    mutating func minutes(_ range: ClosedRange<Int>) -> Int { seconds(range.lowerBound * 60...range.upperBound * 60) }

    mutating func seconds(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    /// Returns true once in `times` calls on average.
    mutating func once(in times: Int) -> Bool { Int.random(in: 0..<times, using: &generator) == 0 }

    /// Returns the kinds of outages in turn.
    mutating func nextOutage() -> Outage {
        outages += 1
        return switch outages % Self.outageKinds {
        case 0: .busy(retryAfter: seconds(300...4500))
        case 1: .hangsUp
        default: .hangs
        }
    }
}
