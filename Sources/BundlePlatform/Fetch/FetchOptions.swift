/// How a `CurlFetcher` connects, and when it gives up.
public struct FetchOptions: Sendable {
    /// Sent as User-Agent: product and version.
    public var userAgent: String
    /// A PEM file of the only authorities to trust; nil trusts the system's.
    public var caFile: String?
    /// A token and the one origin that may see it.
    public var credential: BearerCredential?
    /// Name, connection and TLS handshake together.
    public var connectTimeout: Duration = .seconds(15)
    /// The longest wait from the request to the first byte of the body, and the longest gap after that.
    public var stallTimeout: Duration = .seconds(30)
    /// Bytes per second below which a transfer ends, as the average over any `slowWindow`.
    public var slowFloor = 1024
    /// The span `slowFloor` is measured over.
    public var slowWindow: Duration = .seconds(60)
    /// The time every fetch is allowed in all, redirects included.
    public var minimumCeiling: Duration = .seconds(600)
    /// Bytes per second at which a fetch of `maximumBytes` outgrows `minimumCeiling`.
    public var ceilingRate = 8192
    /// How many redirects to follow.
    public var maximumRedirects = 5
    /// Transfers, and so connections, that run at once; further ones wait, and no time-out runs meanwhile.
    public var maximumTransfers = 8
    /// Bytes of status lines and headers accepted of one server answer.
    public var maximumHeaderBytes = 64 * 1024

    /// Creates the default limits for a program called `userAgent`.
    public init(userAgent: String, caFile: String? = nil, credential: BearerCredential? = nil) {
        self.userAgent = userAgent
        self.caFile = caFile
        self.credential = credential
    }

    func ceiling(maximumBytes: Int) -> Duration {
        max(minimumCeiling, .seconds(maximumBytes / max(1, ceilingRate)))
    }
}
