package import BundleFetch
package import BundleValues

/// Fetches like `CurlFetcher`, and sends the token of the current session to the origin of the feed only.
///
/// A session ends on the device if the feed's own document is refused with 401 several times over some minutes.
/// Responses to other files do not end it. See `SessionRejections`.
package final class SessionFetcher: Fetcher {
    private let fetcher: CurlFetcher
    private let feed: FetchURL
    private let sessions: any SessionRepository
    private let environment: Environment

    /// Creates a fetcher for the feed at `feed`: a channel document, a manifest, or the root of a Meteor server.
    /// `options` do not have a credential. The log of `environment` receives errors of the session store.
    package init(
        _ options: FetchOptions, feed: FetchURL, sessions: any SessionRepository, environment: Environment
    ) {
        fetcher = CurlFetcher(options: options)
        self.feed = feed
        self.sessions = sessions
        self.environment = environment
    }

    /// Passes the response to `sink`. See `Fetcher`.
    package func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        guard let (session, isRefused) = await validSession() else {
            return try await fetcher.fetch(request, into: &sink, credential: nil)
        }
        let credential = try credential(session)
        do {
            let head = try await fetcher.fetch(request, into: &sink, credential: credential)
            if isRefused && isDocument(request.url) { await change { $0.accept(session) } }
            return head
        } catch {
            guard isDocument(request.url), let url = Self.refusedURL(error), url.origin == feed.origin else {
                throw error
            }
            throw await reject(session, refusedAt: url)
        }
    }

    /// Returns the URL that returned 401; nil for another error.
    private static func refusedURL(_ error: any Error) -> FetchURL? {
        guard case .httpStatus(401, let url, _)? = error as? FetchError else { return nil }
        return url
    }

    /// Whether the response to `url` counts for the whole feed: that of the channel file, the manifest, or the trust root that a check
    /// requests before them.
    private func isDocument(_ url: FetchURL) -> Bool {
        if url == feed { return true }
        let text = url.description
        return url.origin == feed.origin && (text.hasSuffix("/manifest.json") || text.contains("/trust/"))
    }

    /// Returns the session and whether its token was refused before; nil if it has expired or cannot be read. A public
    /// feed does not need a token.
    private func validSession() async -> (UserSession, isRefused: Bool)? {
        if feed.scheme == .file { return nil }
        do {
            let record = try await sessions.record()
            guard let session = record.session, session.isValid(at: environment.now()) else { return nil }
            return (session, record.rejections != nil)
        } catch {
            environment.log(UpdateFailure(error).message)
            return nil
        }
    }

    private func credential(_ session: UserSession) throws -> BearerCredential {
        do throws(CredentialError) {
            return try BearerCredential(session.token, origin: feed.origin)
        } catch {
            throw UpdateFailure(
                .configInvalid, subject: feed.origin.host,
                "\(error) To sign out instead, run `clientctl session logout`.")
        }
    }

    @discardableResult
    private func change(_ body: @Sendable (inout SessionRecord) -> Void) async -> SessionRecord? {
        do {
            return try await sessions.change(body)
        } catch {
            environment.log(UpdateFailure(error).message)
            return nil
        }
    }

    private func reject(_ session: UserSession, refusedAt url: FetchURL) async -> UpdateFailure {
        let time = environment.now()
        let record = await change { $0.reject(session, at: time) }
        let sequel =
            record?.session == session
            ? "the feed refuses the token of this device's session, which ends if this lasts for some minutes"
            : "the session is over"
        return UpdateFailure(
            .httpStatus, subject: url.display,
            "\(url.display) returned 401: \(sequel). Log in again: `clientctl session login --token-file FILE`.")
    }
}
