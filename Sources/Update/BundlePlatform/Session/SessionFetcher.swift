package import BundleValues
package import ShellBoot

/// Fetches as `CurlFetcher` does, and shows the token of the session that there is at that moment to one origin: the feed's.
///
/// A session that the origin refuses with 401 is over, for everybody on the device.
package final class SessionFetcher: Fetcher {
    private let fetcher: CurlFetcher
    private let origin: FetchURL.Origin
    private let sessions: any SessionRepository
    private let now: @Sendable () -> Timestamp
    private let report: @Sendable (any Error) -> Void

    /// `options` hold no credential of their own. `report` hears why the sessions could not be read or changed.
    package init(
        _ options: FetchOptions, origin: FetchURL.Origin, sessions: any SessionRepository,
        now: @escaping @Sendable () -> Timestamp, report: @escaping @Sendable (any Error) -> Void
    ) {
        fetcher = CurlFetcher(options: options)
        self.origin = origin
        self.sessions = sessions
        self.now = now
        self.report = report
    }

    /// Brings the answer into `sink`. See `Fetcher`.
    package func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout sending Sink
    ) async throws -> FetchHead {
        guard let session = await validSession() else {
            return try await fetcher.fetch(request, into: &sink, credential: nil)
        }
        let credential = try credential(session)
        do {
            return try await fetcher.fetch(request, into: &sink, credential: credential)
        } catch {
            guard let url = Self.refusedURL(error), url.origin == origin else { throw error }
            throw await end(session, refusedAt: url)
        }
    }

    /// Who answered 401.
    private static func refusedURL(_ error: any Error) -> FetchURL? {
        guard case .httpStatus(401, let url, _)? = error as? FetchError else { return nil }
        return url
    }

    /// The session, unless its time is over. One that cannot be read is none: a feed for everybody needs no token.
    private func validSession() async -> UserSession? {
        if origin.scheme == .file { return nil }
        do {
            let session = try await sessions.record().session
            return session.flatMap { $0.isValid(at: now()) ? $0 : nil }
        } catch {
            report(error)
            return nil
        }
    }

    private func credential(_ session: UserSession) throws -> BearerCredential {
        do throws(CredentialError) {
            return try BearerCredential(session.token, origin: origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: origin.host, "\(error) Or sign out: `clientctl logout`.")
        }
    }

    private func end(_ session: UserSession, refusedAt url: FetchURL) async -> UpdateFailure {
        do {
            let ending = SessionEnding(.rejected, at: now())
            try await sessions.change { $0.end(session, ending) }
        } catch {
            report(error)
        }
        return UpdateFailure(
            .httpStatus, subject: url.display,
            "\(url.display) answered 401: the session is over. Log in again: `clientctl login --token-file FILE`.")
    }
}
