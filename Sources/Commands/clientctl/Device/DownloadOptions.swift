import ArgumentParser
import BundleCore
import BundleDisk
import BundleFetch
import BundleValues
import BundleShell

/// The flags for the downloads of releases.
struct DownloadOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Maximum rate of all downloads together, in bytes per second, such as 256kB.", valueName: "size"))
    var maxRate: String?

    @Option(
        help: ArgumentHelp(
            "Hours for downloads of releases, such as 22:00-05:00 or Mon-Fri 22:00-05:00, in the time zone of the device. Other hours only fetch documents (default: any time).",
            valueName: "window,..."))
    var downloadWindow: String?

    @Option(
        help: ArgumentHelp(
            "Whether the network costs money per byte: auto (as NetworkManager reports it), yes or no (default: auto).",
            valueName: "word"), completion: .list(["auto", "yes", "no"]))
    var metered: String?

    @Option(
        help: ArgumentHelp(
            "Maximum number of bytes on metered networks in a calendar month. A larger download waits for another network.",
            valueName: "size"))
    var meteredBudget: String?

    @Option(
        help: ArgumentHelp(
            "Use of deltas: prefer, only (archives wait) or never (default: prefer).", valueName: "word"),
        completion: .list(DeltaUse.words.map(\.rawValue)))
    var deltas: String?

    @Option(
        help: ArgumentHelp(
            "URL of a copy of the feed, such as a cache in the local network. Archives and deltas are downloaded from there first. Can be repeated.",
            valueName: "url"))
    var mirror: [String] = []

    @Option(
        help: ArgumentHelp(
            "File or pipe with a bearer token for the mirrors of --mirror, which do not get that of --token-file. Other mirrors do not get it.",
            valueName: "file"), completion: .file())
    var mirrorTokenFile: String?
}

/// The help of flags for servers that require more than an address.
extension ArgumentHelp {
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
    static func ofDevice(_ options: UpdateOptions) throws -> FetchPolicy {
        var policy = FetchPolicy()
        policy.rate = try options.downloads.maxRate.map { try rate($0) }
        if let text = options.downloads.downloadWindow {
            policy.hours = [try FlagValue.parsed(text, of: "download-window") { try ActivationWindows(parsing: $0) }]
        }
        policy.meteredBudget = try FlagValue.bytes(options.downloads.meteredBudget, of: "metered-budget")
        if let text = options.downloads.deltas { policy.deltas = try use(text) }
        policy.mirrors = try mirrors(options.downloads.mirror)
        return policy
    }

    static func rate(_ text: String) throws -> Int {
        let rate = try FlagValue.bytes(text, of: "max-rate")
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

    static func mirrors(_ texts: [String]) throws -> [FetchURL] {
        guard texts.count <= mostMirrors else {
            throw ValidationError(
                "--mirror names at most \(mostMirrors) copies of a feed, not \(texts.count). Leave some out.")
        }
        return try texts.map { try FlagValue.parsed($0, of: "mirror") { try mirror($0) } }
    }
}

extension Wiring {
    /// Returns the gate for the downloads of a device with these settings.
    static func gate(_ options: UpdateOptions, store: String) throws -> FetchGate {
        var gate = FetchGate(store: store, hasSeed: options.seed != nil)
        gate.policy = try .ofDevice(options)
        gate.traffic = DeviceContainer.traffic
        gate.localTime = { .now }
        switch options.downloads.metered {
        case nil, "auto"?: gate.isMetered = { await MeteredLink.isMetered() }
        case "yes"?: gate.isMetered = { true }
        case "no"?: gate.isMetered = { false }
        case let text?: throw ValidationError("--metered is auto, yes or no, not \(UntrustedName.display(text)).")
        }
        gate.traffic.limit(rate: gate.policy.rate)
        return gate
    }
}
