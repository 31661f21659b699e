/// The reports of devices with the times at which they arrive.
struct Reports {
    /// The resolution of the counts in seconds.
    private static let grain = 60
    /// The longest random delay of a report in seconds.
    static let longestWait = 300

    private var good: [UInt32]
    private var failed: [UInt32]

    init(seconds: Int) {
        good = Array(repeating: 0, count: seconds / Self.grain + 1)
        failed = good
    }

    /// Adds a first start whose verdict arrives at `time`. Ignores it after the end of the simulation.
    mutating func add(isGood: Bool, at time: Int) {
        let place = time / Self.grain
        guard place < good.count else { return }
        if isGood { good[place] += 1 } else { failed[place] += 1 }
    }

    /// Returns the counts at `time` like Prometheus.
    func facts(at time: Int) -> [String: Int] {
        let end = max(0, min(time / Self.grain, good.count))
        let (confirmed, lost) = (Self.sum(good[..<end]), Self.sum(failed[..<end]))
        if confirmed + lost == 0 { return [:] }
        return ["started": confirmed + lost, "confirmed": confirmed, "failed": lost]
    }

    private static func sum(_ counts: ArraySlice<UInt32>) -> Int { counts.reduce(0) { $0 + Int($1) } }
}
