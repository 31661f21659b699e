package import BundleValues

/// An offered version that the device could not install. A store keeps one for each source.
package struct Wanted: Sendable, Equatable {
    /// The version of the last offer.
    package let version: ClientVersion
    /// The time of the first failed attempt.
    package let since: Timestamp
    /// The number of failed attempts since then.
    package let attempts: Int
    /// The code of the last failure.
    package let code: FailureCode
    /// The message of the last failure.
    package let reason: String
}

extension Wanted: CustomStringConvertible {
    package var description: String {
        let count = attempts == 1 ? "1 attempt failed" : "\(attempts) attempts failed"
        return "\(ClientName.installed(version)) was offered but not installed since \(since) (\(count)): \(reason)"
    }
}

extension Ledger {
    /// Stores that an attempt to install `version` failed at `time`.
    ///
    /// A newer version replaces an older one of the same source but keeps its `since`, the time since which the
    /// device is behind the source.
    mutating func miss(_ version: ClientVersion, after failure: UpdateFailure, at time: Timestamp) {
        let before = wanted.first { $0.version.source == version.source }
        // A clock behind the latest signed time is wrong.
        let time = max(time, feed.clock ?? time)
        forgetWanted(of: version.source)
        wanted.append(
            Wanted(
                version: version, since: min(before?.since ?? time, time), attempts: (before?.attempts ?? 0) + 1,
                code: failure.code, reason: failure.message))
        wanted.sortByVersion(\.version)
    }

    /// Removes the entry of `source`: the device has the version, or the source no longer offers it.
    mutating func forgetWanted(of source: SourceName) {
        wanted.removeAll { $0.version.source == source }
        if waiting?.version.source == source { waiting = nil }
    }

    /// Stores that `version` waits for its download. The same version keeps the time since which it waits for the same reason.
    mutating func setWaiting(_ version: ClientVersion, because wait: FetchWait, at time: Timestamp) {
        let isSame = waiting?.version == version && waiting?.reason == wait.reason
        waiting = WaitingOffer(
            version: version, reason: wait.reason, detail: wait.detail, since: isSame ? waiting?.since ?? time : time)
    }
}
