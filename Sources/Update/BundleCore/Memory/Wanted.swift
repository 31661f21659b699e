package import BundleValues

/// A version that a source offers to this device and that the device could not get. A store keeps one for each source.
package struct Wanted: Sendable, Equatable {
    /// The version that was offered last.
    package let version: ClientVersion
    /// When the first attempt failed.
    package let since: Timestamp
    /// The number of attempts that failed since then.
    package let attempts: Int
    /// Why the last attempt failed.
    package let code: FailureCode
    /// The same in words.
    package let reason: String

    /// Describes a version that did not arrive.
    package init(version: ClientVersion, since: Timestamp, attempts: Int, code: FailureCode, reason: String) {
        self.version = version
        self.since = since
        self.attempts = attempts
        self.code = code
        self.reason = reason
    }
}

extension Wanted: CustomStringConvertible {
    /// The version, how long it has been missing, and why.
    package var description: String {
        let count = attempts == 1 ? "1 attempt failed" : "\(attempts) attempts failed"
        return "\(ClientName.installed(version)) is offered and has not arrived since \(since); \(count): \(reason)"
    }
}

extension Ledger {
    /// Remembers that an attempt to get `version` failed at `time`.
    ///
    /// A newer version of the same source takes the place of one that did not arrive, and the time stays: the device is
    /// behind its source since then.
    mutating func miss(_ version: ClientVersion, _ failure: UpdateFailure, at time: Timestamp) {
        let before = wanted.first { $0.version.source == version.source }
        // A clock that is behind the latest signed time is wrong.
        let time = max(time, feed.clock ?? time)
        forgetWanted(of: version.source)
        wanted.append(
            Wanted(
                version: version, since: min(before?.since ?? time, time), attempts: (before?.attempts ?? 0) + 1,
                code: failure.code, reason: failure.message))
        wanted.sortByVersion(\.version)
    }

    /// Forgets what `source` offered: the device has it, or the source offers it no longer.
    mutating func forgetWanted(of source: SourceName) { wanted.removeAll { $0.version.source == source } }
}
