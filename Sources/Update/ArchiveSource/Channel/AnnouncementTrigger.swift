import BundleValues

/// When what a host announces is a reason to check (Decisions/guard.md). Moments count from any beginning.
///
/// Nothing that is announced is believed: it can only make a device look at its feed, and that seldom. A check that does not lead
/// to the announced sequence is repeated once, since the network may have failed it, or a cache on the way may have been older than
/// the host: with the next connection, or when a cache has had its time. Then no more.
struct AnnouncementTrigger {
    /// How soon after one check there may be another one.
    struct Pace: Sendable, Equatable {
        /// The shortest pause.
        var apart = Duration.seconds(1)
        /// The longest, for a host whose announcements lead nowhere: the pause doubles with each.
        var longest = Duration.seconds(300)
        /// From a check to its repetition: longer than caches keep a document of a feed (30 s).
        var again = Duration.seconds(60)
    }

    private static let mostChecks = 2

    private let pace: Pace
    private var announced: Int?
    /// Whether what was announced last is urgent, somebody says.
    private(set) var isUrgent = false
    private var isAnew = false
    private var isOpen = false
    private var earliest = Duration.zero
    private var checked: (sequence: Int, known: Int?, times: Int)?
    private var fruitless = 0

    init(pace: Pace) { self.pace = pace }

    /// A connection has begun: what is announced now counts although it was announced before.
    mutating func connected() { isAnew = true }

    /// The channel has this sequence, somebody says.
    mutating func hear(_ sequence: Int, isUrgent: Bool = false) {
        guard isAnew || sequence != announced else { return }
        isAnew = false
        announced = sequence
        self.isUrgent = isUrgent
        isOpen = true
    }

    /// A while after a check: one that did not lead to what was announced is due once more.
    mutating func repeatCheck() { isOpen = announced != nil }

    /// When to ask `decide`; nil for not at all.
    var due: Duration? { isOpen ? earliest : nil }

    /// The sequence to check for, nil for none; `known` is the one of the document that the device took last.
    mutating func decide(known: Int?) -> Int? {
        isOpen = false
        // What is known already leads nowhere either: alternating with it earns no pause.
        guard let announced, announced != known else { return nil }
        let isFruitless = checked.map { $0.known == known } ?? false
        var times = 0
        if let checked, isFruitless, checked.sequence == announced { times = checked.times }
        guard times < Self.mostChecks else { return nil }
        fruitless = isFruitless ? fruitless + 1 : 0
        checked = (announced, known, times + 1)
        return announced
    }

    /// The check was made at `now`.
    mutating func rest(at now: Duration) {
        earliest = now + Backoff(from: pace.apart, upTo: pace.longest).delay(after: fruitless)
    }
}
