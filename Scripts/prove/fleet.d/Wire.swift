/// What devices ask for, and what answers: edges of a CDN before one origin. Bodies only; headers and TLS are not counted.
struct Wire {
    enum Route: Int, CaseIterable {
        /// `trust/2.json`, which is not there: 404 without a body.
        case trust
        case document, deltaList, delta, archive
    }

    /// What went over one route.
    struct Count {
        var requests = 0
        var bytes = 0
        var originRequests = 0
        var originBytes = 0
    }

    static let archiveBytes = 29_700_000
    static let deltaBytes = 780_000
    /// Places where the CDN keeps files, each for itself.
    static let edges = 24
    /// How long an edge gives a document, or a 404, without asking the origin.
    static let maximumAge: Int32 = 30
    private static let never = Int32.min / 2

    private(set) var counts = Array(repeating: Count(), count: Route.allCases.count)
    /// Bytes of documents that the device had already: a conditional request of devices would save them.
    private(set) var repeated = 0
    /// Requests in each second.
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

    /// A check at `now`: the next trust root, then the document. The one that the edge has, which may be `maximumAge` old.
    mutating func check(_ now: Int, edge: Int, newest: Int, size: Int, seen: Int, sizeOf: (Int) -> Int) -> Int {
        let time = Int32(now)
        let asksTrust = time - trustAt[edge] >= Self.maximumAge
        if asksTrust { trustAt[edge] = time }
        count(.trust, now, bytes: 0, origin: asksTrust ? 0 : nil)
        var origin: Int?
        if time - documents[edge].at >= Self.maximumAge {
            // 304 where the edge has the newest one.
            origin = documents[edge].issue == newest ? 0 : size
            documents[edge] = (time, newest)
        }
        let issue = documents[edge].issue
        let bytes = sizeOf(issue)
        if issue == seen { repeated += bytes }
        count(.document, now, bytes: bytes, origin: origin)
        return issue
    }

    /// A download at `now`: the list of deltas, then a delta or the archive.
    mutating func download(_ now: Int, edge: Int, release: Int, isDelta: Bool, listBytes: Int) {
        let place = release * Self.edges + edge
        let time = Int32(now)
        let isKnown = listAt[place] != Self.never
        let asksList = time - listAt[place] >= Self.maximumAge
        if asksList { listAt[place] = time }
        count(.deltaList, now, bytes: listBytes, origin: asksList ? (isKnown ? 0 : listBytes) : nil)
        let bytes = isDelta ? Self.deltaBytes : Self.archiveBytes
        // Immutable: an edge asks once.
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

/// What devices report, each fact once, and when it is known.
struct Reports {
    /// Seconds between two moments at which counts are kept.
    private static let grain = 60
    /// Reports wait at most so long, at random.
    static let longestWait = 300

    private var good: [UInt32]
    private var failed: [UInt32]

    init(seconds: Int) {
        good = Array(repeating: 0, count: seconds / Self.grain + 1)
        failed = good
    }

    /// A first start whose verdict is known at `time`; after the end of the simulation, never.
    mutating func add(isGood: Bool, at time: Int) {
        let place = time / Self.grain
        guard place < good.count else { return }
        if isGood { good[place] += 1 } else { failed[place] += 1 }
    }

    /// The counts at `time`, as Prometheus has them.
    func facts(at time: Int) -> [String: Int] {
        let end = max(0, min(time / Self.grain, good.count))
        let (confirmed, lost) = (Self.sum(good[..<end]), Self.sum(failed[..<end]))
        if confirmed + lost == 0 { return [:] }
        return ["started": confirmed + lost, "confirmed": confirmed, "failed": lost]
    }

    private static func sum(_ counts: ArraySlice<UInt32>) -> Int { counts.reduce(0) { $0 + Int($1) } }
}
