import BundleValues

/// The counts and failures of a day.
struct Tally {
    /// The growth of memory that is allowed after the first hour.
    static let memoryGrowth = 8 << 20
    static let handleGrowth = 4
    /// The size of one blocked or recalled version in the ledger, with a reserve for other changes.
    private static let ledgerShare = 1024
    private static let ledgerSlack = 8192

    var checks = 0
    var failures: [FailureCode: Int] = [:]
    var releases = 0
    var news = 0
    var outages: [String: Int] = [:]
    var installed = 0
    var launches = 0
    var confirmed = 0
    var rolledBack = 0
    var blocked = 0
    var recalled = 0
    var expired: Int { failures[.expired] ?? 0 }
    var mostVersions = 0
    var longestGap = Duration.zero
    private(set) var complaints: [String] = []
    private var rows: [(hour: Int, cells: [String])] = []
    private var first: Reading?

    mutating func complain(_ text: String, at now: Duration) {
        if complaints.count < 20 { complaints.append("\(Self.time(now)) \(text)") }
    }

    static func time(_ moment: Duration) -> String {
        let seconds = moment.components.seconds
        let two = { (number: Int64) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(two(seconds / 3600)):\(two(seconds / 60 % 60)):\(two(seconds % 60))"
    }

    // MARK: Growth

    /// Records a reading. The first hour is the baseline.
    mutating func take(_ reading: Reading, hour: Int, isShown: Bool) {
        if let first { compare(reading, first, hour) } else { first = reading }
        if !isShown { return }
        let failed = failures.values.reduce(0, +)
        let counts = [checks, failed, releases, installed, rolledBack, blocked, recalled].map(String.init)
        let sizes = [
            Self.tenths(reading.memory, 1 << 20), "\(reading.descriptors)", "\(reading.threads)",
            Self.tenths(reading.storeBytes, 1024), "\(reading.storeFiles)", "\(reading.ledgerBytes)",
        ]
        rows.append((hour, counts + sizes))
    }

    private mutating func compare(_ reading: Reading, _ first: Reading, _ hour: Int) {
        let now = Duration.seconds(hour * 3600)
        let limits = [
            ("bytes of memory", reading.memory, first.memory + Self.memoryGrowth),
            ("descriptors", reading.descriptors, first.descriptors + Self.handleGrowth),
            ("threads", reading.threads, first.threads + Self.handleGrowth),
            ("bytes in the store", reading.storeBytes, Day.mostVersions * Day.versionBytes + Day.storeBytes),
            ("files in the store", reading.storeFiles, Day.mostVersions * Day.versionFiles + Day.storeFiles),
            (
                "bytes of ledger", reading.ledgerBytes,
                first.ledgerBytes + Self.ledgerSlack + Self.ledgerShare * (blocked + recalled)
            ),
        ]
        for (what, found, limit) in limits where found > limit {
            complain("\(found) \(what), more than \(limit)", at: now)
        }
    }

    private static func tenths(_ number: Int, _ unit: Int) -> String {
        let tenths = number * 10 / unit
        return "\(tenths / 10).\(tenths % 10)"
    }

    // MARK: The report

    private static let head = [
        "hour", "checks", "failed", "releases", "installed", "rollbacks", "blocked", "recalled", "RSS MiB", "fds",
        "threads", "store KiB", "files", "ledger B",
    ]

    var lines: [String] {
        let cells = rows.map { ["\($0.hour)"] + $0.cells }
        let row = { (cells: [String]) in
            zip(Self.head, cells).map { Self.padded($1, to: max($0.count, 8)) }.joined(separator: " ")
        }
        let codes = failures.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\($0.value) \($0.key)" }
        let away = outages.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
        return [row(Self.head)] + cells.map(row) + [
            "day: failed checks: \(codes.joined(separator: ", ")); outages: \(away.joined(separator: ", "))",
            "day: \(checks) checks (longest gap \(Self.time(longestGap))), \(releases) releases, \(news) of them pushed, "
                + "\(installed) installed, \(launches) launches, \(confirmed) confirmed, \(rolledBack) rollbacks, "
                + "\(blocked) blocked, \(recalled) recalled, \(expired) refused as expired, at most \(mostVersions) "
                + "versions in the store; \(complaints.count) wrong",
        ]
    }

    private static func padded(_ text: String, to width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}
