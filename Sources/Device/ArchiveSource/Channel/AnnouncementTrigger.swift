import BundleValues

/// Decides when an announcement leads to a check (Decisions/guard.md). Times count from an arbitrary start.
///
/// An announcement is not trusted: it can only make a device check its feed, at a limited rate. A check that does not
/// reach the announced sequence is repeated once, because the network may have failed or a cache may have been older
/// than the host. The repetition follows the next connection, or a pause in which caches expire.
struct AnnouncementTrigger {
    /// The pauses between checks.
    struct Pace: Sendable, Equatable {
        var apart = Duration.seconds(1)
        /// The longest pause. The pause doubles after each check without effect.
        var longest = Duration.seconds(300)
        /// The pause before a repeated check, longer than caches keep a document (30 s).
        var again = Duration.seconds(60)
    }

    private static let mostChecks = 2

    private let pace: Pace
    private var announced: Int?
    /// Whether the last announcement is urgent.
    private(set) var isUrgent = false
    private var isNewConnection = false
    private var isOpen = false
    private var earliest = Duration.zero
    private var checked: (sequence: Int, known: Int?, times: Int)?
    private var fruitless = 0

    init(pace: Pace) { self.pace = pace }

    /// Notes a new connection, after which a repeated announcement leads to a check again.
    mutating func connected() { isNewConnection = true }

    /// Accepts an announcement of `sequence`.
    mutating func receive(_ sequence: Int, isUrgent: Bool = false) {
        guard isNewConnection || sequence != announced else { return }
        isNewConnection = false
        announced = sequence
        self.isUrgent = isUrgent
        isOpen = true
    }

    /// Repeats the last check if it did not reach the announced sequence.
    mutating func repeatCheck() { isOpen = announced != nil }

    /// The time of the next call of `decide`; nil if no check is due.
    var due: Duration? { isOpen ? earliest : nil }

    /// Returns the sequence to check for, or nil. `known` is the sequence of the last accepted document.
    mutating func decide(known: Int?) -> Int? {
        isOpen = false
        // An announcement of the known sequence does not reset the pause either.
        guard let announced, announced != known else { return nil }
        let isFruitless = checked.map { $0.known == known } ?? false
        var times = 0
        if let checked, isFruitless, checked.sequence == announced { times = checked.times }
        guard times < Self.mostChecks else { return nil }
        fruitless = isFruitless ? fruitless + 1 : 0
        checked = (announced, known, times + 1)
        return announced
    }

    /// Starts the pause after a check at `now`.
    mutating func rest(at now: Duration) {
        earliest = now + Backoff(from: pace.apart, upTo: pace.longest).delay(after: fruitless)
    }
}
