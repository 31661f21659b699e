package import BundleDisk
import BundlePush
package import BundleServe
import BundleThreads
import BundleValues

/// Counts what devices report, in a file that outlives the program: who is answered is counted for good.
package actor ReportCounter: ReportReceiver {
    private static let maximumBytes = 64 << 20
    /// From one write to the next, at least: one is for all who came meanwhile.
    private static let writePause = Duration.milliseconds(100)
    /// So old what is shown may be.
    private static let shownFor = Duration.seconds(1)
    /// So old what is known of the feed may be; and from one look to the next, where somebody reports about something else.
    private static let namesFor = Duration.seconds(1)
    private static let lookPause = Duration.milliseconds(100)

    private let folder: Directory
    private let name: String
    private let lock: FileLock
    private let feed: Directory
    private let clock: any Clock<Duration>
    private let now: @Sendable () -> Duration
    private var allowance = MessageAllowance()

    private var counts: ReportCounts
    /// How often the counts have changed; how often by then when they had to be on the disk; and of those on the disk.
    private var (revision, owed, written) = (0, 0, 0)

    private var names = ReportCounts.Names()
    private var namesAt: Duration?
    /// Looks at the feed that have begun, and the one that `names` are of.
    private(set) var looks = 0
    private var namesOf = 0
    private var looking: Task<Void, Never>?

    /// Who waits for the next write.
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isWriting = false
    private var writtenAt: Duration?
    private(set) var writes = 0

    private var shown: (text: String, revision: Int, at: Duration)?
    private var rendering: Task<String, Never>?
    private(set) var renderings = 0

    /// Goes on with the counts in the file `name` of `folder`, or begins them; reports may be about what `feed` has. Nobody else
    /// counts in that file meanwhile.
    package init(
        _ name: String, in folder: Directory, of feed: Directory, clock: any Clock<Duration> = SuspendingClock()
    ) throws {
        (self.name, self.folder, self.feed) = (name, folder, feed)
        self.clock = clock
        now = clock.reading()
        let path = "\(folder.path)/\(name)"
        guard let lock = try FileLock.take("\(name).lock", in: folder) else {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "Another host adds up reports in \(path), and two would lose counts. Name another file with --reports, or stop that host."
            )
        }
        self.lock = lock
        do {
            let bytes = try folder.contents(name, maximumBytes: Self.maximumBytes)
            counts = try bytes.map { try ReportCounts(parsing: $0, maximumBytes: Self.maximumBytes) } ?? ReportCounts()
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) has no counts of reports: \(error). Name another file with --reports, or move it away."
            )
        }
    }

    /// Takes one message. See `ReportReceiver`.
    package func take(_ message: [UInt8]) async -> ReportVerdict {
        guard allowance.take(at: SuspendingClock.now) else { return .tooMany(retryAfter: 30) }
        let parsed: ReportMessage
        do { parsed = try ReportMessage(parsing: message) } catch { return .malformed("\(error)") }
        await lookAround(for: parsed)
        let intake = counts.take(parsed, in: names)
        if intake.isNews { revision += 1 }
        if intake.isOwed { owed = revision }
        do {
            if written < owed { try await persist() }
            return .taken(counted: intake.counted)
        } catch {
            return .failed
        }
    }

    // MARK: Metrics

    /// What was taken, as it was within the last second. See `ReportReceiver`.
    package func metrics() async -> String {
        if let shown, shown.revision == revision || now() - shown.at < Self.shownFor { return shown.text }
        if let rendering { return await rendering.value }
        let task = Task { await render() }
        rendering = task
        return await task.value
    }

    private func render() async -> String {
        let (state, revision, moment) = (counts, revision, now())
        renderings += 1
        let text = (try? await onThread { state.metrics }) ?? state.metrics
        shown = (text, revision, moment)
        rendering = nil
        return text
    }

    // MARK: The feed

    /// Knows what the feed has, as it was within the last second; and as it is now, where `message` is about something else.
    private func lookAround(for message: ReportMessage) async {
        let before = looks
        if namesAt.map({ now() - $0 >= Self.namesFor }) ?? true { await look() }
        let isKnown = message.reports.allSatisfy {
            names.have(ReportCounts.Line(channel: $0.channel, version: $0.version))
        }
        // Whoever comes in the middle of a look needs the next one.
        while !isKnown && namesOf <= before { await look() }
    }

    private func look() async {
        if let looking { return await looking.value }
        let task = Task { await lookOnce() }
        looking = task
        await task.value
    }

    private func lookOnce() async {
        if let namesAt { try? await clock.sleep(for: max(.zero, Self.lookPause - (now() - namesAt))) }
        looks += 1
        namesAt = now()
        names = (try? await onThread { [feed] in ReportCounts.Names(of: feed) }) ?? names
        namesOf = looks
        looking = nil
    }

    // MARK: The file

    /// Returns when what is counted by now is on the disk; one write is for all who wait.
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
            if let writtenAt { try? await clock.sleep(for: max(.zero, Self.writePause - (now() - writtenAt))) }
            let (served, state, revision) = (waiting, counts, revision)
            waiting = []
            // What they wait for may have been in the write before.
            if written >= owed {
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
            writtenAt = now()
            for continuation in served { continuation.resume(with: result) }
        }
        isWriting = false
    }
}

extension ReportCounts.Names {
    /// The channels and versions that the folder in a feed's place has by name; nothing of it is believed.
    init(of feed: Directory) {
        self.init()
        let feed = (try? Directory.open(feed.path)) ?? feed
        channels = Set(ChannelSequences.names(in: feed))
        let folders = (try? feed.directory("releases").list()) ?? []
        versions = Set(folders.compactMap { try? SemanticVersion(parsingFolderName: $0) })
    }
}

/// How many messages are taken: 500 a second, and 1,000 at once. More is a flood, and devices come again.
struct MessageAllowance {
    private static let rate = 500.0
    private static let burst = 1000.0

    private var left = burst
    private var last: SuspendingClock.Instant?

    /// Whether another message may be taken at `time`.
    mutating func take(at time: SuspendingClock.Instant) -> Bool {
        left = min(Self.burst, left + (time - (last ?? time)) / .seconds(1) * Self.rate)
        last = time
        if left < 1 { return false }
        left -= 1
        return true
    }
}
