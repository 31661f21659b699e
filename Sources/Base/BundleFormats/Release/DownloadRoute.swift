/// The way in which the files of a release were downloaded.
package struct DownloadRoute: Sendable, Equatable {
    /// The reason for the route, in the words of `Guide/reference/deltas.md`.
    package enum Reason: String, Sendable, CaseIterable {
        /// A delta was used.
        case taken
        /// The device has no client that a delta could be applied to.
        case noBase
        /// The release has no deltas.
        case noDeltas
        /// No delta applies to an installed client.
        case noMatch
        /// The device or its channel uses no deltas.
        case excluded
        /// The deltas that apply need more memory than this device allows.
        case tooMuchMemory
        /// The list or the delta could not be downloaded.
        case notFetched
        /// The list or the delta does not match its signature, or does not produce the release.
        case refused
        /// A file that the delta needs is damaged.
        case damagedBase
        /// The same delta was refused before.
        case triedBefore
    }

    package let reason: Reason
    /// The base of the delta, or its fault, for people.
    package let detail: String?

    package init(_ reason: Reason, _ detail: String? = nil) {
        self.reason = reason
        self.detail = detail
    }

    /// `delta` or `archive`.
    package var word: String { reason == .taken ? "delta" : "archive" }
}
