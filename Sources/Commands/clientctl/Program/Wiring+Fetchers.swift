import ArchiveSource
import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundleValues
import BundleShell

extension Wiring {
    /// Returns a fetcher that sends a token only to the origin of `url`. This is the token of `--token-file`, or otherwise of the session of
    /// `store`. `keepingSession` keeps the session if the server rejects its token.
    static func fetcher(
        _ network: NetworkOptions, for url: FetchURL, store: String? = nil, keepingSession: Bool = false
    ) throws -> any Fetcher {
        var options = try network.fetching()
        options.credential = try credential(network, for: url)
        options.headers = try headers(network, for: url)
        guard options.credential == nil, let store else { return try DeviceContainer.fetcher(options) }
        return try DeviceContainer.fetcher(
            options, for: url, sessions: keepingSession ? KeptSessions(sessions: sessions(store)) : sessions(store),
            environment: .command)
    }

    /// Returns a fetcher for reports, which any server may receive. It sends the token only to the origin of the feed or the Meteor server
    /// that the device follows, and no token if the device follows neither.
    static func fetcher(
        _ network: NetworkOptions, reportingOf followed: (feed: FeedAddress?, meteor: String?), store: String
    ) throws -> any Fetcher {
        let meteor = try followed.meteor.map { text in try FlagValue.url(text, of: "meteor") }
        guard let origin = followed.feed?.url ?? meteor else {
            return try DeviceContainer.fetcher(try network.fetching())
        }
        return try fetcher(network, for: origin, store: store)
    }

    /// Returns the fetcher of a relay for its upstream. Its timeouts are short, because a relay polls again soon.
    static func fetcher(_ relay: RelayOptions, for url: FetchURL) throws -> any Fetcher {
        TokenFetcher(
            fetcher: try fetcher(relay, credential: relay.upstreamTokenFile.map { try credential($0, for: url) }),
            flag: "upstream-token-file")
    }

    /// Returns the fetcher of a relay that has no token of its own.
    static func tokenlessFetcher(_ relay: RelayOptions) throws -> any Fetcher { try fetcher(relay, credential: nil) }

    private static func fetcher(_ relay: RelayOptions, credential: BearerCredential?) throws -> any Fetcher {
        var options = try relay.way.fetching()
        options.credential = credential
        options.connectTimeout = .seconds(5)
        options.stallTimeout = .seconds(10)
        options.minimumCeiling = .seconds(30)
        return try DeviceContainer.fetcher(options)
    }

    /// Returns a fetcher for the roster at `url`, with the token in this file.
    static func fetcher(_ way: WayOptions, token: String?, for url: FetchURL) throws -> any Fetcher {
        var options = try way.fetching()
        options.credential = try token.map { try credential($0, for: url) }
        return TokenFetcher(fetcher: try DeviceContainer.fetcher(options), flag: "roster-token-file")
    }

    /// Returns the token of `--token-file` for the origin of `url`; nil without the flag.
    static func credential(_ network: NetworkOptions, for url: FetchURL) throws -> BearerCredential? {
        try network.tokenFile.map { try credential($0, for: url) }
    }

    private static func credential(_ path: String, for url: FetchURL) throws -> BearerCredential {
        let bytes = try TokenFile.contents(of: path)
        do {
            return try BearerCredential(tokenFile: bytes, origin: url.origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The token in \(path) is invalid: \(error)")
        }
    }

    /// Returns a fetcher for mirrors. It follows no redirects, and soon leaves a silent mirror. Mirrors get neither the token of
    /// the feed nor its header fields; those that `mirrors` names, and no others, get the token of `--mirror-token-file`.
    static func mirrorFetcher(_ network: NetworkOptions, token: String?, mirrors: [String]) throws -> any Fetcher {
        let plain = try mirrorFetcher(network, credential: nil)
        guard let token else { return plain }
        if mirrors.isEmpty {
            throw ValidationError("--mirror-token-file needs the address of the mirror: add --mirror.")
        }
        var closed: [(origin: FetchURL.Origin, fetcher: any Fetcher)] = []
        for url in try FetchPolicy.mirrors(mirrors) {
            closed.append((url.origin, try mirrorFetcher(network, credential: credential(token, for: url))))
        }
        return MirrorFetcher(plain: plain, closed: closed)
    }

    private static func mirrorFetcher(
        _ network: NetworkOptions, credential: BearerCredential?
    ) throws -> any Fetcher {
        var options = try network.fetching()
        options.credential = credential
        options.connectTimeout = .seconds(5)
        options.stallTimeout = .seconds(10)
        options.maximumRedirects = 0
        return try DeviceContainer.fetcher(options)
    }

    /// Returns the certificate of `--client-cert`; nil without the flag. Throws `UpdateFailure` if other users can read the key, or if
    /// a file cannot be used.
    static func clientCertificate(_ certificate: String?, key: String?) throws
        -> ClientCertificate?
    {
        guard let path = certificate else {
            guard key == nil else {
                throw ValidationError("--client-key needs the certificate of the key: add --client-cert.")
            }
            return nil
        }
        let found = ClientCertificate(path: path, keyPath: key)
        let keyPath = found.keyPath ?? path
        let keyFile = try File.open(reading: keyPath)
        try requirePrivate(keyFile, path: keyPath, what: "private key")
        if found.isPKCS12 { return found }
        if found.keyPath != nil {
            _ = try contents(
                of: File.open(reading: path), path, with: "-----BEGIN CERTIFICATE-----", what: "certificate")
        }
        let key = try contents(of: keyFile, keyPath, with: "PRIVATE KEY-----", what: "private key")
        if key.contains("ENCRYPTED") {
            throw UpdateFailure(
                .configInvalid, subject: keyPath,
                "The private key \(keyPath) has a passphrase, which a device cannot enter. Give a key without one, with mode 600."
            )
        }
        return found
    }

    private static func contents(of file: File, _ path: String, with mark: String, what: String) throws -> String {
        let bytes = try file.readAll(maximumBytes: 1 << 20)
        try EditedText.requirePlain(bytes, in: path)
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.contains(mark) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) has no \(what) in PEM format. Give a PEM file with a \(what).")
        }
        return text
    }

    private static func requirePrivate(_ file: File, path: String, what: String) throws {
        guard try file.permissions() & 0o077 != 0 else { return }
        throw UpdateFailure(
            .permissionDenied, subject: path, "Other users can read the \(what) in \(path): run `chmod 600 \(path)`.")
    }

    /// Returns the fields of `--header-file` for the origin of `url`; nil without the flag.
    static func headers(_ network: NetworkOptions, for url: FetchURL) throws -> OriginHeaders? {
        guard let path = network.headerFile, !url.isFile else { return nil }
        let bytes = try TokenFile.contents(of: path) { try requirePrivate($0, path: path, what: "header fields") }
        do {
            return try OriginHeaders(try HeaderFile.parse(bytes), origin: url.origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The header file \(path) cannot be used: \(error).")
        }
    }
}

/// Fetches from mirrors, and from those of `closed` with their token.
private struct MirrorFetcher: Fetcher {
    let plain: any Fetcher
    let closed: [(origin: FetchURL.Origin, fetcher: any Fetcher)]

    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout Sink) async throws -> FetchHead {
        let fetcher = closed.first { $0.origin == request.url.origin }?.fetcher ?? plain
        return try await fetcher.fetch(request, into: &sink)
    }
}

/// Fetches through `fetcher`. The error of a response 401 names the flag for the token.
private struct TokenFetcher: Fetcher {
    let fetcher: any Fetcher
    let flag: String

    func fetch<Sink: FetchSink & ~Copyable>(_ request: FetchRequest, into sink: inout Sink) async throws -> FetchHead {
        do {
            return try await fetcher.fetch(request, into: &sink)
        } catch FetchError.httpStatus(401, let url, _) {
            throw UpdateFailure(
                .httpStatus, subject: url.display,
                "\(url.display) answered 401. It requires a valid token: give one with --\(flag).")
        }
    }
}
