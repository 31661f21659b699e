import BundleFormats
import ArgumentParser

/// The flags that `check`, `install`, `serve` and `doctor` share.
struct UpdateOptions: ParsableArguments {
    /// The needs of commands that cannot do without a feed or a Meteor server.
    static let required = [
        RequiredFlags.Need("channel <url|file>", "manifest <url|file>", "meteor <url>"),
        RequiredFlags.Need("trust <path>", unless: "meteor"),
    ]

    @Option(
        help: ArgumentHelp(
            "Manifest of the feed: a URL (https, http, file) or a path. Give --manifest, --channel or --meteor.",
            valueName: "url|file"),
        completion: .file())
    var manifest: String?

    @Option(
        help: ArgumentHelp(
            "Channel file of the feed, FEED/channels/NAME.json: a URL or a path.",
            valueName: "url|file"), completion: .file())
    var channel: String?

    @Option(
        help: ArgumentHelp(
            "(required with --manifest or --channel) Keys of the publisher: a PEM public key, a folder of *.pem, or a trust root (trust.json).",
            valueName: "path"),
        completion: .file())
    var trust: String?

    @Option(
        help: ArgumentHelp(
            "ID that decides when this device gets a staged rollout. Every device needs its own (default: the last one, or one from the ID of the machine).",
            valueName: "id"))
    var deviceId: String?

    @Option(
        help: ArgumentHelp(
            "Groups of this device, such as qa,eu, or none. Releases may be for groups only. The store keeps the list.",
            valueName: "name,..."))
    var group: String?

    @Option(
        help: ArgumentHelp(
            "ROOT_URL of a Meteor server, instead of a feed or in addition to it.", valueName: "url"))
    var meteor: String?

    @Option(
        help: ArgumentHelp(
            "Platform of the Meteor compatibility version: android or ios (default: android).", valueName: "name"),
        completion: .platform)
    var platform: String?

    @Option(
        help: ArgumentHelp(
            "Check of Meteor files: compatible accepts a file that neither its bytes nor its labels prove; strict rejects it (default: compatible).",
            valueName: "mode"), completion: .list(["compatible", "strict"]))
    var verifyAssets: String?

    @Option(help: .store, completion: .directory) var store: String?
    @Option(help: .shellVersion) var shellVersion: String?

    @Option(help: ArgumentHelp("Application of the device, such as com.example.kiosk.", valueName: "id"))
    var appId: String?

    @Option(help: .seed, completion: .directory) var seed: String?

    @Option(help: .keep) var keep: String?

    @Option(help: .sources, completion: .sources) var sources: String?

    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup(title: "Downloads") var downloads: DownloadOptions
    @OptionGroup(title: "Limits") var limits: LimitOptions
}
