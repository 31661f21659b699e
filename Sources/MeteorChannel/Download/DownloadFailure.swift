import BundleCore

/// Puts the end of a run into words that name the file.
enum DownloadFailure {
    static func of(_ job: AssetJob, _ error: FetchError) -> UpdateFailure {
        let failure = error.failure
        let what =
            switch error {
            case .httpStatus(let status, _, _): "Non-success status code \(status) for asset: "
            default: "Error downloading asset: "
            }
        return UpdateFailure(failure.code, subject: job.name, what + FetchURL.display(of: job.name) + ". \(failure)")
    }

    /// Whether an optional file is just not there.
    static func isAbsence(_ error: FetchError) -> Bool {
        switch error {
        case .httpStatus(404, _, _), .fileMissing: true
        default: false
        }
    }
}
