public import BundleFetch
import BundleSigning
public import BundleValues

extension DeviceContainer {
    /// Returns the saved sessions of the device with the store at `path`.
    public static func sessions(store path: String) -> any SessionRepository { FileSessionRepository(store: path) }

    /// Counts and limits the bytes of all fetchers of this process.
    package static let traffic = Traffic()

    /// Returns a fetcher that sends `userAgent`.
    public static func fetcher(userAgent: String) throws -> any Fetcher {
        try fetcher(FetchOptions(userAgent: userAgent))
    }

    /// Returns a fetcher for a feed at `url` that requires a token. The token of the session is sent to the feed's origin only.
    /// The log of `environment` receives errors in reading or ending the session.
    public static func fetcher(
        userAgent: String, for url: FetchURL, sessions: any SessionRepository, environment: Environment
    ) throws -> any Fetcher {
        try fetcher(FetchOptions(userAgent: userAgent), for: url, sessions: sessions, environment: environment)
    }

    /// Returns a fetcher with the proxy, authorities and limits of `options`.
    public static func fetcher(_ options: FetchOptions) throws -> any Fetcher {
        // The TLS of libcurl shares OpenSSL with the verification of signatures, and no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        return CurlFetcher(options: limited(options))
    }

    /// Returns a fetcher with `options` for a feed at `url` that requires a token, as above.
    public static func fetcher(
        _ options: FetchOptions, for url: FetchURL, sessions: any SessionRepository, environment: Environment
    ) throws -> any Fetcher {
        try OpenSSLIsolation.begin()
        return SessionFetcher(limited(options), feed: url, sessions: sessions, environment: environment)
    }

    private static func limited(_ options: FetchOptions) -> FetchOptions {
        var options = options
        options.traffic = traffic
        return options
    }
}
