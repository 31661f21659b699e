import BundleValues
import BundleDisk
import BundleTransport

/// A file of a bundle to download.
struct AssetJob: Sendable {
    /// The URL path for messages, such as `/app/app.js`.
    let name: String
    /// The location in the tree, unique within a run.
    let file: BundlePath
    /// Identifies the content across attempts and versions.
    let key: String
    let download: DownloadJob

    /// `isOptional` is for source maps: a 404 response completes the job without a file.
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

    /// Returns an error that names the file.
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

/// Downloads files in parallel into a tree and resumes earlier attempts.
///
/// A file appears in the tree only when it is complete and its inspector accepted it. A journal beside the tree records
/// complete and partial files; `InterruptedDownload` reads it.
struct AssetDownloader: Sendable {
    let tree: Directory
    /// The folder of the journal and the partial files, on the file system of the tree.
    let attempt: Directory
    /// The attempt to resume.
    let earlier: InterruptedDownload?
    let fetcher: any Fetcher
    let policy: DownloadPolicy
    let environment: Environment
    /// Called before each file and every few megabytes.
    let requireRoom: @Sendable () throws -> Void
    /// Called by one thread at a time.
    let report: @Sendable (DownloadProgress) -> Void

    /// Downloads the files. Throws `UpdateFailure` with the name of the file instead of `FailedJob`.
    func run(_ jobs: [AssetJob]) async throws -> DownloadedFiles {
        let places = try AssetPlaces(
            jobs, tree: tree, attempt: attempt, earlier: earlier, requireRoom: requireRoom, report: report)
        let downloader = Downloader(to: places, fetcher: fetcher, policy: policy, environment: environment)
        do {
            return try await downloader.run(jobs.map(\.download))
        } catch let failed as FailedJob {
            throw jobs[failed.job].failure(failed.cause)
        }
    }
}
