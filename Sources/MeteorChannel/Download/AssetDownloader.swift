public import BundleCore
public import BundleDisk

/// Brings many files into a tree, some at once, and goes on where an earlier attempt stopped.
///
/// A file has its name in the tree only when it is complete and its inspector has accepted it; nothing is forced to the disk. What is
/// complete, and the beginning of what is not, is noted in a journal beside the tree (`InterruptedDownload` reads it).
public struct AssetDownloader: Sendable {
    private let tree: Directory
    private let attempt: Directory
    private let earlier: [InterruptedDownload]
    private let fetcher: any Fetcher
    private let policy: DownloadPolicy
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let requireRoom: @Sendable () throws -> Void
    private let report: @Sendable (DownloadProgress) -> Void

    /// Fills `tree`; journal and unfinished files lie in `attempt`, a folder of the same file system. What `earlier` attempts began is
    /// gone on with. `requireRoom` is called before each file and every few megabytes, `report` after, both on one thread.
    public init(
        into tree: Directory, attempt: Directory, continuing earlier: [InterruptedDownload] = [],
        fetcher: any Fetcher, policy: DownloadPolicy, clock: any Clock<Duration>,
        random: @escaping @Sendable (ClosedRange<Double>) -> Double,
        requireRoom: @escaping @Sendable () throws -> Void,
        report: @escaping @Sendable (DownloadProgress) -> Void
    ) {
        self.tree = tree
        self.attempt = attempt
        self.earlier = earlier
        self.fetcher = fetcher
        self.policy = policy
        self.clock = clock
        self.random = random
        self.requireRoom = requireRoom
        self.report = report
    }

    /// Brings the files in the order of `jobs`, the first one alone: the others are begun when it is accepted.
    ///
    /// The first final failure, and cancelling the task, end everything at once; what is complete then stays in tree and journal.
    /// Throws an `UpdateFailure` that names the file, the inspector's own error, a `DiskError`, what `requireRoom` throws, or
    /// `CancellationError`.
    public func run(_ jobs: [AssetJob]) async throws -> DownloadedAssets {
        let line = try DownloadLine()
        defer { line.finish() }
        let places = try AssetPlaces(tree: tree, attempt: attempt, requireRoom: requireRoom, report: report)
        let steps = DownloadSteps(
            jobs: jobs, earlier: earlier, fetcher: fetcher, clock: clock, places: places, line: line)
        return try await withThrowingTaskGroup(of: DownloadEvent.self) { group in
            var run = DownloadRun(jobs, policy: policy, random: random)
            while !run.isDone {
                while let next = run.start() {
                    group.addTask { await next.begin(with: steps) }
                }
                guard let event = try await group.next() else { break }
                if let step = try run.take(event) {
                    group.addTask { await step.begin(with: steps) }
                }
            }
            return run.result
        }
    }
}
