import BundleValues
import BundleDisk
import BundleDownload

/// One file of a bundle to bring.
struct AssetJob: Sendable {
    /// For messages: the URL path, `/app/app.js`.
    let name: String
    /// Where it goes in the tree. No two jobs of a run have the same.
    let file: BundlePath
    /// What tells the wanted content from all other, across attempts and versions.
    let key: String
    let download: DownloadJob

    /// `isOptional`: the response 404 counts as done, with nothing written; a source map.
    init(
        url: FetchURL, name: String, file: BundlePath, key: String, maximumBytes: Int, isOptional: Bool = false,
        makeInspector: @escaping @Sendable () throws -> any DownloadInspector
    ) {
        self.name = name
        self.file = file
        self.key = key
        var download = DownloadJob(url: url, maximumBytes: maximumBytes, makeInspector: makeInspector)
        download.isOptional = isOptional
        self.download = download
    }

    /// Puts the end of a run into words that name the file.
    fileprivate func failure(_ error: FetchError) -> UpdateFailure {
        let failure = error.failure
        let what =
            switch error {
            case .httpStatus(let status, _, _): "Non-success status code \(status) for asset: "
            default: "Error downloading asset: "
            }
        return UpdateFailure(failure.code, subject: name, what + FetchURL.display(of: name) + ". \(failure)")
    }
}

/// Brings many files into a tree, some at once, and goes on where an earlier attempt stopped.
///
/// A file has its name in the tree only when it is complete and its inspector has accepted it. What is complete, and the beginning of
/// what is not, is recorded in a journal beside the tree (`InterruptedDownload` reads it).
struct AssetDownloader: Sendable {
    /// The tree to fill.
    let tree: Directory
    /// The folder of journal and unfinished files, of the same file system.
    let attempt: Directory
    /// The attempt that is gone on with.
    let earlier: InterruptedDownload?
    let fetcher: any Fetcher
    let policy: DownloadPolicy
    let clock: any Clock<Duration>
    let random: @Sendable (ClosedRange<Double>) -> Double
    /// Called before each file and every few megabytes.
    let requireRoom: @Sendable () throws -> Void
    /// Called after, by one thread at a time.
    let report: @Sendable (DownloadProgress) -> Void

    /// Brings the files as `Downloader` does. Throws an `UpdateFailure` that names the file in place of a `FailedJob`.
    func run(_ jobs: [AssetJob]) async throws -> DownloadedFiles {
        let places = try AssetPlaces(
            jobs, tree: tree, attempt: attempt, earlier: earlier, requireRoom: requireRoom, report: report)
        let downloader = Downloader(to: places, fetcher: fetcher, policy: policy, clock: clock, random: random)
        do {
            return try await downloader.run(jobs.map(\.download))
        } catch let failed as FailedJob {
            throw jobs[failed.job].failure(failed.cause)
        }
    }
}
