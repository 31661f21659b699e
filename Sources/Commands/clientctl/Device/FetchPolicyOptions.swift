import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundleValues
import ClientShell

/// The help of the flags for the downloads of releases.
extension ArgumentHelp {
    static let maxRate = ArgumentHelp(
        "Maximum rate of all downloads together, in bytes per second, such as 256kB.", valueName: "size")
    static let downloadWindow = ArgumentHelp(
        "Hours for downloads of releases, such as 22:00-05:00 or Mon-Fri 22:00-05:00, in the time zone of the device. Other hours only fetch documents (default: any time).",
        valueName: "window,...")
    static let metered = ArgumentHelp(
        "Whether the network costs money per byte: auto (as NetworkManager reports it), yes or no (default: auto).",
        valueName: "word")
    static let meteredBudget = ArgumentHelp(
        "Maximum number of bytes on metered networks in a calendar month. A larger download waits for another network.",
        valueName: "size")
    static let deltas = ArgumentHelp(
        "Use of deltas: prefer, only (archives wait) or never (default: prefer).", valueName: "word")
    static let mirror = ArgumentHelp(
        "URL of a copy of the feed, such as a cache in the local network. Archives and deltas are downloaded from there first. Can be repeated.",
        valueName: "url")
    static let clientCert = ArgumentHelp(
        "Certificate for servers that require one: a PEM file, or a PKCS#12 file (.p12) with its key.",
        valueName: "file")
    static let clientKey = ArgumentHelp(
        "Private key of the certificate, a PEM file without a passphrase (default: the file of the certificate).",
        valueName: "file")
    static let headerFile = ArgumentHelp(
        "File with header fields, one in each line, such as X-Site: 12. They are sent only to the origin of the feed or Meteor server.",
        valueName: "file")
}

extension FetchPolicy {
    /// Returns the policy in the settings of a device. Throws `ValidationError` for a wrong value.
    static func ofDevice(_ options: UpdateOptions, _ settings: Settings) throws -> FetchPolicy {
        var policy = FetchPolicy()
        policy.rate = try settings.optional("max-rate", options.maxRate).map { try rate($0, settings) }
        if let text = try settings.optional("download-window", options.downloadWindow) {
            policy.hours = [try settings.parsed("download-window", text) { try ActivationWindows(parsing: $0) }]
        }
        policy.meteredBudget = try settings.optional("metered-budget", options.meteredBudget).map { text in
            try settings.parsed("metered-budget", text) { try ByteCount(parsing: $0).bytes }
        }
        if let text = try settings.optional("deltas", options.deltas) { policy.deltas = try use(text) }
        policy.mirrors = try mirrors(try settings.list("mirror", options.mirror), settings)
        return policy
    }

    static func rate(_ text: String, _ settings: Settings) throws -> Int {
        let rate = try settings.parsed("max-rate", text) { try ByteCount(parsing: $0).bytes }
        guard rate >= TokenBucket.lowestRate else {
            throw ValidationError("--max-rate is at least \(TokenBucket.lowestRate / 1000)kB per second.")
        }
        return rate
    }

    static func use(_ text: String) throws -> DeltaUse {
        guard let use = DeltaUse.words.first(where: { $0.rawValue == text }) else {
            throw ValidationError("--deltas is prefer, only or never, not \(UntrustedName.display(text)).")
        }
        return use
    }

    static func mirrors(_ texts: [String], _ settings: Settings) throws -> [FetchURL] {
        guard texts.count <= mostMirrors else {
            throw ValidationError("--mirror names at most \(mostMirrors) copies of a feed.")
        }
        return try texts.map { try settings.parsed("mirror", $0) { try mirror($0) } }
    }
}

extension Wiring {
    /// Returns the gate for the downloads of a device with these settings.
    static func gate(_ options: UpdateOptions, store: String, _ settings: Settings) throws -> FetchGate {
        var gate = FetchGate(store: store)
        gate.policy = try .ofDevice(options, settings)
        gate.traffic = DeviceContainer.traffic
        gate.localTime = { .now }
        switch try settings.optional("metered", options.metered) {
        case nil, "auto"?: gate.isMetered = { await MeteredLink.isMetered() }
        case "yes"?: gate.isMetered = { true }
        case "no"?: gate.isMetered = { false }
        case let text?: throw ValidationError("--metered is auto, yes or no, not \(UntrustedName.display(text)).")
        }
        gate.traffic.limit(rate: gate.policy.rate)
        return gate
    }

    /// Returns a fetcher for mirrors. It sends no token, follows no redirects, and soon leaves a slow mirror for the feed.
    static func mirrorFetcher(_ network: NetworkOptions, _ settings: Settings) throws -> any Fetcher {
        var options = try network.fetching(settings)
        options.connectTimeout = .seconds(5)
        options.stallTimeout = .seconds(10)
        options.slowFloor = TokenBucket.lowestRate / 2
        options.slowWindow = .seconds(20)
        options.maximumRedirects = 0
        return try DeviceContainer.fetcher(options)
    }

    /// Returns the certificate of `--client-cert`; nil without the flag. Throws `UpdateFailure` if other users can read the key, or if
    /// a file cannot be used.
    static func clientCertificate(_ certificate: String?, _ key: String?, _ settings: Settings) throws
        -> ClientCertificate?
    {
        guard let path = try settings.optional("client-cert", certificate) else {
            guard try settings.optional("client-key", key) == nil else {
                throw ValidationError("--client-key needs the certificate of the key: add --client-cert.")
            }
            return nil
        }
        let found = ClientCertificate(path: path, keyPath: try settings.optional("client-key", key))
        let keyPath = found.keyPath ?? path
        let keyFile = try File.open(reading: keyPath)
        try requirePrivate(keyFile, keyPath, what: "private key")
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
        let text = String(decoding: try file.readAll(maximumBytes: 1 << 20), as: UTF8.self)
        guard text.contains(mark) else {
            throw UpdateFailure(
                .configInvalid, subject: path, "\(path) has no \(what) in PEM format. Give a PEM file with a \(what).")
        }
        return text
    }

    private static func requirePrivate(_ file: File, _ path: String, what: String) throws {
        guard try file.permissions() & 0o077 != 0 else { return }
        throw UpdateFailure(
            .permissionDenied, subject: path, "Other users can read the \(what) in \(path): run `chmod 600 \(path)`.")
    }

    /// Returns the fields of `--header-file` for the origin of `url`; nil without the flag.
    static func headers(_ network: NetworkOptions, for url: FetchURL, _ settings: Settings) throws -> OriginHeaders? {
        guard let path = try settings.optional("header-file", network.headerFile), !url.isFile else { return nil }
        let bytes = try TokenFile.contents(of: path) { try requirePrivate($0, path, what: "header fields") }
        do {
            return try OriginHeaders(try HeaderFile.parse(bytes), origin: url.origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The header file \(path) cannot be used: \(error).")
        }
    }
}
