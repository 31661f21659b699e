import BundleValues

/// The limits for parallel requests and attempts.
package struct DownloadPolicy: Sendable {
    /// The number of parallel requests.
    package var requests = 6
    /// The attempts at a file in a row without progress. An attempt with progress is always followed by another.
    package var attempts = 5
    /// The attempts in a run after the first one of each file.
    package var retries = 1000
    /// The longest wait that a server may ask for.
    package var longestWait: Duration = .seconds(120)
    /// The number of waiting files up to which new files are started, which limits the requests to a server with
    /// problems.
    package var waiting = 24
    /// The number of pieces of 256 KiB that may be queued for writing.
    package var pieces = 16

    package init() {}
}

/// Decides when a failed attempt is repeated.
enum AttemptRule {
    /// Returns the wait after a number of attempts in a row without progress, counted from 0: 0.1, 1, 2, 4, 7, 11, 16,
    /// 22, 29, then 30 seconds (METEOR section 3.4).
    static func interval(_ failures: Int) -> Duration {
        guard failures > 0 else { return .milliseconds(100) }
        let steps = min(failures - 1, 10)
        return .seconds(min(30, 1 + steps * (steps + 1) / 2))
    }

    /// Returns the wait before the next attempt. It is at least the wait that the server requested, up to the limit of the policy.
    /// `jitter` is within 0.75...1.25.
    static func delay(after error: FetchError?, failures: Int, jitter: Double, policy: DownloadPolicy) -> Duration {
        let wait = interval(failures) * jitter
        guard case .httpStatus(_, _, let asked?) = error else { return wait }
        return max(wait, min(asked, policy.longestWait))
    }

    /// Whether a repeated request can succeed soon.
    static func mayPass(_ error: FetchError) -> Bool {
        switch error {
        case .unreachable, .tooSlow, .timedOut, .invalidResponse: true
        case .httpStatus(let status, _, _): [408, 416, 425, 429].contains(status) || (500...599).contains(status)
        default: false
        }
    }

    /// Whether the server does not have the file.
    static func isAbsence(_ error: FetchError) -> Bool {
        switch error {
        case .httpStatus(404, _, _), .fileMissing: true
        default: false
        }
    }

    /// Whether the earlier part is invalid: the server has no bytes after it, or the rest does not fit.
    static func invalidatesPart(_ error: FetchError) -> Bool {
        switch error {
        case .invalidResponse, .tooLarge, .httpStatus(416, _, _): true
        default: false
        }
    }
}
