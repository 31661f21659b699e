package import BundleValues

/// A problem of a feed at its public URL.
package struct FeedFinding: Sendable, Hashable {
    /// The kinds of findings.
    package enum Code: String, Sendable, CaseIterable {
        /// The file is missing, or its server fails.
        case missing
        /// Its server refuses readers: 401 or 403.
        case refused
        /// The server does not send a complete response.
        case unreachable
        /// The file is malformed.
        case malformed
        /// No trusted key signed the file.
        case notVouchedFor
        /// The keys of a release are revoked.
        case revokedKey
        /// The file is for another application than the trust root.
        case otherApp
        /// A trust root does not follow the one before it, so devices keep that one and check nothing else.
        case brokenChain
        /// Devices ignore the hold.
        case voidHold
        /// `manifest.json` offers a release that a channel recalls.
        case recalled
        /// The file has expired.
        case expired
        /// The file expires within three days.
        case expiresSoon
        /// The origin has a later file.
        case stale
        /// The size differs from the signed size.
        case wrongSize
        /// The file is sent with a content encoding, which devices do not decode.
        case encoded
        /// The response does not state the size.
        case noSize
        /// Downloads cannot be resumed, because the server ignores ranges.
        case noRanges
        /// Caches may keep a file that changes for more than five minutes, or without a limit.
        case cachedTooLong
        /// Caches keep a file that never changes for less than an hour.
        case cachedTooShort

        /// The failure of devices; nil if they are not affected.
        package var failure: FailureCode? {
            switch self {
            case .missing, .refused: .httpStatus
            case .unreachable: .networkUnavailable
            case .malformed: .manifestMalformed
            case .notVouchedFor, .brokenChain: .signatureInvalid
            case .revokedKey: .keyUnknown
            case .recalled: .versionBlocked
            case .otherApp: .appMismatch
            case .expired: .expired
            case .stale: .rollbackAttempt
            case .wrongSize: .sizeMismatch
            case .encoded: .archiveRejected
            case .expiresSoon, .voidHold, .noSize, .noRanges, .cachedTooLong, .cachedTooShort: nil
            }
        }
    }

    package let code: Code
    /// The URL, without its query.
    package let subject: String
    /// The problem and its remedy.
    package let message: String
    /// The failure of devices; nil if they are not affected.
    package let failure: FailureCode?

    /// The message, prefixed with the URL.
    package var sentence: String { message.hasPrefix(subject) ? message : "\(subject): \(message)" }
}
