/// The requests of devices to the edges of a CDN with one origin. Counts bodies only, without headers and TLS.
struct Wire {
    enum Route: Int, CaseIterable {
        /// `trust/2.json`, which does not exist: 404 without a body.
        case trust
        case document, deltaList, delta, archive
    }

    /// The traffic of a route.
    struct Count {
        var requests = 0
        var bytes = 0
        var originRequests = 0
        var originBytes = 0
    }

    static let archiveBytes = 29_700_000
    static let deltaBytes = 780_000
    /// The number of separate caches of the CDN.
    static let edges = 24
    /// The seconds for which an edge caches a document or a 404.
    static let maximumAge: Int32 = 30
    private static let never = Int32.min / 2

    private(set) var counts = Array(repeating: Count(), count: Route.allCases.count)
    /// Bytes of documents that the device already had. Conditional requests would save them.
    private(set) var repeated = 0
    /// The requests in each second.
    private(set) var requests: [UInt32]
    private(set) var originRequests: [UInt32]
    private var trustAt = Array(repeating: never, count: edges)
    private var documents = Array(repeating: (at: never, issue: -1), count: edges)
    private var listAt: [Int32]
    private var hasFile: [Bool]

    init(seconds: Int, releases: Int) {
        requests = Array(repeating: 0, count: seconds)
        originRequests = requests
        listAt = Array(repeating: Self.never, count: Self.edges * releases)
        hasFile = Array(repeating: false, count: Self.edges * releases * 2)
    }

    /// Counts the requests of a check: the next trust root, then the document. Returns the document of the edge, which may be old.
    mutating func check(_ now: Int, edge: Int, newest: Int, size: Int, seen: Int, sizeOf: (Int) -> Int) -> Int {
        let time = Int32(now)
        let asksTrust = time - trustAt[edge] >= Self.maximumAge
        if asksTrust { trustAt[edge] = time }
        count(.trust, now, bytes: 0, origin: asksTrust ? 0 : nil)
        var origin: Int?
        if time - documents[edge].at >= Self.maximumAge {
            // 304 if the edge has the newest document.
            origin = documents[edge].issue == newest ? 0 : size
            documents[edge] = (time, newest)
        }
        let issue = documents[edge].issue
        let bytes = sizeOf(issue)
        if issue == seen { repeated += bytes }
        count(.document, now, bytes: bytes, origin: origin)
        return issue
    }

    /// Counts the requests of a download: the list of deltas, then a delta or the archive.
    mutating func download(_ now: Int, edge: Int, release: Int, isDelta: Bool, listBytes: Int) {
        let place = release * Self.edges + edge
        let time = Int32(now)
        let isKnown = listAt[place] != Self.never
        let asksList = time - listAt[place] >= Self.maximumAge
        if asksList { listAt[place] = time }
        count(.deltaList, now, bytes: listBytes, origin: asksList ? (isKnown ? 0 : listBytes) : nil)
        let bytes = isDelta ? Self.deltaBytes : Self.archiveBytes
        // The file is immutable, so an edge requests it once.
        let file = place * 2 + (isDelta ? 1 : 0)
        count(isDelta ? .delta : .archive, now, bytes: bytes, origin: hasFile[file] ? nil : bytes)
        hasFile[file] = true
    }

    private mutating func count(_ route: Route, _ now: Int, bytes: Int, origin: Int?) {
        requests[now] += 1
        counts[route.rawValue].requests += 1
        counts[route.rawValue].bytes += bytes
        guard let origin else { return }
        originRequests[now] += 1
        counts[route.rawValue].originRequests += 1
        counts[route.rawValue].originBytes += origin
    }
}

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
