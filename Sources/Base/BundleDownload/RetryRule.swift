import BundleValues

/// How many files come at once, and how hard a run tries.
package struct DownloadPolicy: Sendable {
    /// Requests under way at once.
    package var requests = 6
    /// Attempts at one file in a row of which none brings the file further; one that does is always followed by another.
    package var attempts = 5
    /// Attempts in a run after the first one at each file.
    package var retries = 1000
    /// The longest wait that a server may ask for.
    package var longestWait: Duration = .seconds(120)
    /// Files that wait for their next attempt while new ones are still begun: a server in trouble is not asked for all the others.
    package var waiting = 24
    /// Pieces of 256 KiB that may wait to be written.
    package var pieces = 16

    /// The usual policy.
    package init() {}
}

/// When a failed attempt is followed by another.
enum RetryRule {
    /// The wait after the first, second, … attempt in a row without progress, counted from 0:
    /// 0.1, 1, 2, 4, 7, 11, 16, 22, 29, then 30 seconds (METEOR section 3.4).
    static func interval(_ failures: Int) -> Duration {
        guard failures > 0 else { return .milliseconds(100) }
        let steps = min(failures - 1, 10)
        return .seconds(min(30, 1 + steps * (steps + 1) / 2))
    }

    /// The wait before the next attempt; at least what the server asked for, up to the policy's limit. `jitter` is in 0.75…1.25.
    static func delay(after error: FetchError?, failures: Int, jitter: Double, policy: DownloadPolicy) -> Duration {
        let wait = interval(failures) * jitter
        guard case .httpStatus(_, _, let asked?) = error else { return wait }
        return max(wait, min(asked, policy.longestWait))
    }

    /// Whether the same request may have another response soon.
    static func mayPass(_ error: FetchError) -> Bool {
        switch error {
        case .unreachable, .tooSlow, .timedOut, .invalidResponse: true
        case .httpStatus(let status, _, _): [408, 416, 425, 429].contains(status) || (500...599).contains(status)
        default: false
        }
    }

    /// Whether the server says that there is no such file.
    static func isAbsence(_ error: FetchError) -> Bool {
        switch error {
        case .httpStatus(404, _, _), .fileMissing: true
        default: false
        }
    }

    /// Whether what is already here of the file is no good: there is nothing behind it, or the rest does not fit.
    static func condemnsPart(_ error: FetchError) -> Bool {
        switch error {
        case .invalidResponse, .tooLarge, .httpStatus(416, _, _): true
        default: false
        }
    }
}
