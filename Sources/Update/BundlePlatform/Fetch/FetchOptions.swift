/// How a `CurlFetcher` connects, and when it gives up.
package struct FetchOptions: Sendable {
    /// Sent as User-Agent: product and version.
    package var userAgent: String
    /// A PEM file of the only authorities to trust; nil trusts the system's.
    package var caFile: String?
    /// A token and the one origin that may see it.
    package var credential: BearerCredential?
    /// Name, connection and TLS handshake together.
    package var connectTimeout: Duration = .seconds(15)
    /// The longest wait from the request to the first byte of the body, and the longest gap after that.
    package var stallTimeout: Duration = .seconds(30)
    /// Bytes per second below which a transfer ends, as the average over any `slowWindow`.
    package var slowFloor = 1024
    /// The span `slowFloor` is measured over.
    package var slowWindow: Duration = .seconds(60)
    /// The time every fetch is allowed in all, redirects included.
    package var minimumCeiling: Duration = .seconds(600)
    /// Bytes per second at which a fetch of `maximumBytes` outgrows `minimumCeiling`.
    package var ceilingRate = 8192
    /// How many redirects to follow.
    package var maximumRedirects = 5
    /// Transfers, and so connections, that run at once; further ones wait, and no time-out runs meanwhile.
    package var maximumTransfers = 8
    /// Bytes of status lines and headers accepted of one server answer.
    package var maximumHeaderBytes = 64 * 1024

    /// Creates the default limits for a program called `userAgent`.
    package init(userAgent: String, caFile: String? = nil, credential: BearerCredential? = nil) {
        self.userAgent = userAgent
        self.caFile = caFile
        self.credential = credential
    }

    func ceiling(maximumBytes: Int) -> Duration {
        max(minimumCeiling, .seconds(maximumBytes / max(1, ceilingRate)))
    }
}
