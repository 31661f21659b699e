package import BundleDisk
import BundleValues

/// The result of a message with reports.
enum ReportVerdict: Sendable, Equatable {
    /// The number of reports that count. The others were known, or concern versions that the feed does not have.
    case taken(counted: Int)
    /// The message is invalid, for this reason.
    case malformed(String)
    /// There were too many messages. The sender may retry after this number of seconds.
    case tooMany(retryAfter: Int)
    /// The disk accepts no writes.
    case failed
}

/// Counts the reports of devices in a file. A report is stored before its device receives the response.
package actor ReportCounter {
    private static let maximumBytes = 64 << 20
    /// The shortest time between two writes. One write serves all waiting requests.
    private static let writePause = Duration.milliseconds(100)
    /// The age up to which rendered metrics are reused.
    private static let shownFor = Duration.seconds(1)
    /// The age up to which the names of the feed are reused, and the shortest time between scans for unknown names.
    private static let namesFor = Duration.seconds(1)
    private static let scanPause = Duration.milliseconds(100)

    private static let phonesFor = Duration.seconds(60)

    private let folder: Directory
    private let name: String
    private let lock: FileLock
    private let feed: Directory
    private let clock: any Clock<Duration>
    private let stopwatch: Stopwatch
    private var allowance = MessageAllowance()

    private var counts: ReportCounts
    private var phones = SeenReports()
    private var phonesAt: Duration?
    /// The number of changes of the counts: all, those that must be stored, and those stored.
    private var (revision, required, written) = (0, 0, 0)

    private var names = ReportCounts.Names()
    private var namesAt: Duration?
    /// The number of started scans of the feed, and the scan that found `names`.
    private(set) var scans = 0
    private var namesScan = 0
    private var scanning: Task<Void, Never>?

    /// The requests that wait for the next write.
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isWriting = false
    private var writtenAt: Duration?
    private(set) var writes = 0

    private var shown: (text: String, revision: Int, at: Duration)?
    private var rendering: Task<String, Never>?
    private(set) var renderings = 0

    /// Opens or creates the counts in the file `name` of `folder`. Reports must be about versions in `feed`. Throws if
    /// another process uses the file.
    package init(
        _ name: String, in folder: Directory, of feed: Directory, clock: any Clock<Duration> = SuspendingClock()
    ) throws {
        (self.name, self.folder, self.feed) = (name, folder, feed)
        self.clock = clock
        stopwatch = Stopwatch(clock)
        let path = "\(folder.path)/\(name)"
        guard let lock = try FileLock.take("\(name).lock", in: folder) else {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "Another host counts reports in \(path), and two hosts would lose counts. Name another file with --reports, or stop that host."
            )
        }
        self.lock = lock
        do {
            let bytes = try folder.contents(name, maximumBytes: Self.maximumBytes)
            counts = try bytes.map { try ReportCounts(parsing: $0, maximumBytes: Self.maximumBytes) } ?? ReportCounts()
            let seen = try folder.contents("\(name).phones", maximumBytes: SeenReports.byteCount)
            if let seen, let found = SeenReports(seen) { phones = found }
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) is not a file of report counts: \(error). Name another file with --reports, or move it away."
            )
        }
    }

    /// Counts the reports in the body of one message. They are on the disk when it returns.
    func take(_ message: [UInt8]) async -> ReportVerdict {
        guard allowance.consume(at: SuspendingClock.now) else { return .tooMany(retryAfter: 30) }
        let parsed: ReportMessage
        do { parsed = try ReportMessage(parsing: message) } catch { return .malformed("\(error)") }
        return await count(parsed)
    }

    /// Counts the reports of a phone. They are on the disk when it returns.
    func take(ofPhone reports: [DeviceReport]) async -> ReportVerdict {
        guard allowance.consume(at: SuspendingClock.now) else { return .tooMany(retryAfter: 30) }
        let verdict = await count(ReportMessage(appId: nil, reports: reports, dropped: 0))
        await storePhones()
        return verdict
    }

    private func count(_ parsed: ReportMessage) async -> ReportVerdict {
        await refreshNames(for: parsed)
        let intake = counts.add(parsed, in: names, phones: &phones)
        if intake.isChanged { revision += 1 }
        if intake.mustPersist { required = revision }
        do {
            if written < required { try await persist() }
            return .taken(counted: intake.counted)
        } catch {
            return .failed
        }
    }

    /// Stores at most once a minute which reports of phones were counted. What a stop loses may count twice.
    private func storePhones() async {
        if phones.isStored { return }
        if let phonesAt, stopwatch.elapsed - phonesAt < Self.phonesFor { return }
        phonesAt = stopwatch.elapsed
        phones.isStored = true
        let bytes = phones.bytes
        try? await onThread { [folder, name] in
            try folder.replaceFileWithoutSync("\(name).phones", with: bytes, mode: 0o600)
        }
    }

    // MARK: Metrics

    /// Returns the metrics, at most one second old.
    func metrics() async -> String {
        if let shown, shown.revision == revision || stopwatch.elapsed - shown.at < Self.shownFor { return shown.text }
        if let rendering { return await rendering.value }
        let task = Task { await render() }
        rendering = task
        return await task.value
    }

    private func render() async -> String {
        let (state, revision, moment) = (counts, revision, stopwatch.elapsed)
        renderings += 1
        let text = (try? await onThread { state.metrics }) ?? state.metrics
        shown = (text, revision, moment)
        rendering = nil
        return text
    }

    // MARK: The feed

    /// Updates the names of the feed if they are older than a second, or if `message` has an unknown name.
    private func refreshNames(for message: ReportMessage) async {
        let before = scans
        if namesAt.map({ stopwatch.elapsed - $0 >= Self.namesFor }) ?? true { await scan() }
        let isKnown = message.reports.allSatisfy {
            names.have(ReportCounts.CountLine(channel: $0.channel, version: $0.version))
        }
        // A request that arrives during a scan needs the next one.
        while !isKnown && namesScan <= before { await scan() }
    }

    private func scan() async {
        if let scanning { return await scanning.value }
        let task = Task { await scanOnce() }
        scanning = task
        await task.value
    }

    private func scanOnce() async {
        if let namesAt { try? await clock.sleep(for: max(.zero, Self.scanPause - (stopwatch.elapsed - namesAt))) }
        scans += 1
        namesAt = stopwatch.elapsed
        names = (try? await onThread { [feed] in ReportCounts.Names(of: feed) }) ?? names
        namesScan = scans
        scanning = nil
    }

    // MARK: The file

    /// Returns when all present counts are stored. One write serves all waiting requests.
    private func persist() async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            waiting.append(continuation)
            if isWriting { return }
            isWriting = true
            Task { await write() }
        }
    }

    private func write() async {
        while !waiting.isEmpty {
            if let writtenAt {
                try? await clock.sleep(for: max(.zero, Self.writePause - (stopwatch.elapsed - writtenAt)))
            }
            let (served, state, revision) = (waiting, counts, revision)
            waiting = []
            // The previous write can have stored the counts.
            if written >= required {
                for continuation in served { continuation.resume() }
                continue
            }
            let result: Result<Void, any Error>
            do {
                writes += 1
                try await onThread { [folder, name] in
                    try folder.replaceFile(name, with: JSONWriter.bytes(of: state.json, layout: .pretty), mode: 0o600)
                }
                written = revision
                result = .success(())
            } catch {
                result = .failure(error)
            }
            writtenAt = stopwatch.elapsed
            for continuation in served { continuation.resume(with: result) }
        }
        isWriting = false
    }
}

extension ReportCounts.Names {
    /// Reads the names of channels and versions in a feed folder without verification.
    init(of feed: Directory) {
        self.init()
        let feed = (try? Directory.open(feed.path)) ?? feed
        channels = Set(ChannelSequences.names(in: feed))
        let folders = (try? feed.directory("releases").list()) ?? []
        versions = Set(folders.compactMap { try? SemanticVersion(parsingFolderName: $0) })
    }
}

/// Limits messages to 500 per second with bursts of 1,000. Devices repeat rejected messages later.
struct MessageAllowance {
    private static let rate = 500.0
    private static let burst = 1000.0

    private var left = burst
    private var last: SuspendingClock.Instant?

    /// Whether a message is accepted at `time`.
    mutating func consume(at time: SuspendingClock.Instant) -> Bool {
        left = min(Self.burst, left + (time - (last ?? time)) / .seconds(1) * Self.rate)
        last = time
        if left < 1 { return false }
        left -= 1
        return true
    }
}
