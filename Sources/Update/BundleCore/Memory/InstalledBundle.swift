package import BundleValues

/// The way that the files of a release came by.
package struct DownloadRoute: Sendable, Equatable {
    /// Why it was this one, in the words of `Guide/reference/deltas.md`.
    package enum Reason: String, Sendable, CaseIterable {
        /// A delta was taken.
        case taken
        /// Nothing is here that a delta could build on.
        case noBase
        /// The release has no deltas.
        case noDeltas
        /// None of its deltas builds on what is here.
        case noMatch
        /// Those that do need more memory than this device gives.
        case tooMuchMemory
        /// The list or the delta could not be fetched.
        case notFetched
        /// The list or the delta is not what was signed, or does not lead to the release.
        case refused
        /// A file that it builds on is not what was installed.
        case damagedBase
        /// It was tried, and refused, before.
        case triedBefore
    }

    /// Why.
    package let reason: Reason
    /// What the delta builds on, or what was wrong with it, for people.
    package let detail: String?

    /// States a route.
    package init(_ reason: Reason, _ detail: String? = nil) {
        self.reason = reason
        self.detail = detail
    }

    /// `delta` or `archive`.
    package var word: String { reason == .taken ? "delta" : "archive" }
}

/// How a release would come, as far as that is known before it is fetched.
package struct PlannedRoute: Sendable, Equatable {
    /// Which way, and why.
    package let route: DownloadRoute
    /// Bytes of the delta or the archive; nil where the release does not say.
    package let bytes: Int?

    /// States a plan.
    package init(_ route: DownloadRoute, bytes: Int?) {
        self.route = route
        self.bytes = bytes
    }
}

/// A client that is complete in the store: its folder stands under its final name and the ledger vouches for it.
package struct InstalledBundle: Sendable, Equatable {
    /// What the ledger remembers about it.
    package let entry: Ledger.Entry
    /// Absolute or relative path of its folder, as the store was opened.
    package let path: String

    /// Only the store makes one.
    init(entry: Ledger.Entry, path: String) {
        self.entry = entry
        self.path = path
    }

    /// Its version.
    package var version: ClientVersion { entry.version }

    /// Its name in answers.
    package var name: ClientName { .installed(entry.version) }
}
