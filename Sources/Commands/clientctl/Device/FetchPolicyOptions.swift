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
    static func ofDevice(_ options: UpdateOptions) throws -> FetchPolicy {
        var policy = FetchPolicy()
        policy.rate = try options.maxRate.map { try rate($0) }
        if let text = options.downloadWindow {
            policy.hours = [try FlagValue.parsed(text, of: "download-window") { try ActivationWindows(parsing: $0) }]
        }
        policy.meteredBudget = try FlagValue.bytes(options.meteredBudget, of: "metered-budget")
        if let text = options.deltas { policy.deltas = try use(text) }
        policy.mirrors = try mirrors(options.mirror)
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
            throw ValidationError("--mirror names at most \(mostMirrors) copies of a feed.")
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
        switch options.metered {
        case nil, "auto"?: gate.isMetered = { await MeteredLink.isMetered() }
        case "yes"?: gate.isMetered = { true }
        case "no"?: gate.isMetered = { false }
        case let text?: throw ValidationError("--metered is auto, yes or no, not \(UntrustedName.display(text)).")
        }
        gate.traffic.limit(rate: gate.policy.rate)
        return gate
    }
}
