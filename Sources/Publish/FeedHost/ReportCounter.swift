package import BundleDisk
package import BundleServe
import BundleThreads
import BundleValues

/// Counts what devices report, in a file that outlives the program: who is answered is counted for good.
package actor ReportCounter: ReportReceiver {
    private static let maximumBytes = 64 << 20

    private let folder: Directory
    private let name: String
    private let feed: Directory
    private var counts: ReportCounts
    private var names = ReportCounts.Names()
    private var namesAt: SuspendingClock.Instant?
    /// Who waits for the next write.
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isWriting = false
    private var allowance = MessageAllowance()

    /// Goes on with the counts in the file `name` of `folder`, or begins them; reports may be about what `feed` has.
    package init(_ name: String, in folder: Directory, of feed: Directory) throws {
        self.folder = folder
        self.name = name
        self.feed = feed
        let bytes = try folder.contents(name, maximumBytes: Self.maximumBytes)
        do {
            counts = try bytes.map { try ReportCounts(parsing: $0, maximumBytes: Self.maximumBytes) } ?? ReportCounts()
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: "\(folder.path)/\(name)",
                "\(folder.path)/\(name) has no counts of reports: \(error). Name another file with --reports, or move it away."
            )
        }
    }

    /// Takes one message. See `ReportReceiver`.
    package func take(_ message: [UInt8]) async -> ReportVerdict {
        guard allowance.take(at: SuspendingClock.now) else { return .tooMany(retryAfter: 30) }
        let parsed: ReportMessage
        do { parsed = try ReportMessage(parsing: message) } catch { return .malformed("\(error)") }
        lookAround()
        let new = counts.take(parsed, in: names)
        do {
            try await persist()
            return .taken(counted: new)
        } catch {
            return .failed
        }
    }

    /// What was taken. See `ReportReceiver`.
    package func metrics() -> String { counts.metrics }

    /// Once a second at most: what the feed has changes when somebody publishes.
    private func lookAround() {
        let now = SuspendingClock.now
        if let namesAt, now - namesAt < .seconds(1) { return }
        namesAt = now
        names = ReportCounts.Names(of: feed)
    }

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
            let (served, state) = (waiting, counts)
            waiting = []
            let result: Result<Void, any Error>
            do {
                try await onThread { [folder, name] in
                    try folder.replaceFile(name, with: JSONWriter.bytes(of: state.json, layout: .pretty), mode: 0o600)
                }
                result = .success(())
            } catch {
                result = .failure(error)
            }
            for continuation in served { continuation.resume(with: result) }
        }
        isWriting = false
    }
}

extension ReportCounts.Names {
    /// The channels and versions that a feed's folder has by name; nothing of it is believed.
    init(of feed: Directory) {
        self.init()
        channels = Set(ChannelSequences().read(again: ChannelSequences.folder(in: feed)).numbers.keys)
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
