import ArchiveChannel
import ArgumentParser
import BundleCore
import BundleDisk
import BundlePlatform
import BundleSigning
import Glibc
import MeteorChannel
import ShellBoot

/// Builds real collaborators out of settings; the only place here that names concrete adapters.
enum Wiring {
    /// The address that an argument means: a URL, or the path of a file.
    static func url(_ text: String) throws -> FetchURL {
        if text.contains("://") { return try FetchURL(parsing: text) }
        return try FetchURL(filePath: Array(try absolute(text).utf8))
    }

    /// The path from the root.
    static func absolute(_ path: String) throws -> String {
        if path.hasPrefix("/") { return path }
        guard let folder = getcwd(nil, 0) else { throw DiskError("find", ".", code: errno) }
        defer { free(folder) }
        return "\(String(cString: folder))/\(path)"
    }

    /// Whoever started this process, and wants to hear how it is doing; called once.
    static func serviceManager() -> ServiceManager { ServiceManager.adopt() }

    /// What remembers who is signed in on the device with that store.
    static func sessions(_ store: String) -> FileSessionRepository { FileSessionRepository(store: store) }

    /// Shows the token of `--token-file`, else that of the session of `store`, to the origin of `url` alone.
    static func fetcher(
        _ network: NetworkOptions, for url: FetchURL, store: String? = nil, _ settings: Settings
    ) throws -> any Fetcher {
        // libcurl's TLS shares OpenSSL with our verification; no openssl.cnf may change either.
        try OpenSSLIsolation.begin()
        var options = FetchOptions(userAgent: Product.userAgent)
        options.caFile = try settings.optional("ca-file", network.caFile)
        options.credential = try credential(network, for: url, settings)
        if options.credential == nil, let store {
            return SessionFetcher(
                options, origin: url.origin, sessions: sessions(store), now: { .now },
                report: { Answer.say("clientctl: \(UpdateFailure($0).message)") })
        }
        return CurlFetcher(options: options)
    }

    /// The token of `--token-file`, for the origin of `url`; nil where no file is named.
    static func credential(
        _ network: NetworkOptions, for url: FetchURL, _ settings: Settings
    ) throws -> BearerCredential? {
        guard let path = try settings.optional("token-file", network.tokenFile) else { return nil }
        let bytes = try File.open(reading: path).readAll(maximumBytes: 64 * 1024)
        do {
            return try BearerCredential(tokenFile: bytes, origin: url.origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The token of \(path) is not used: \(error)")
        }
    }

    /// The feed and the Meteor server that are named. Flags name them; where none does, the environment and the file.
    static func places(
        _ options: UpdateOptions, _ settings: Settings
    ) throws -> (feed: ReleaseSource?, meteor: String?) {
        let isFlagged = options.manifest != nil || options.channel != nil || options.meteor.meteor != nil
        return (
            try source(options, settings, isFlagged: isFlagged),
            isFlagged ? options.meteor.meteor : try settings.optional("meteor", nil)
        )
    }

    /// The channels that are named, in their order.
    static func channels(
        _ options: UpdateOptions, _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> [ChannelWork] {
        let (feed, meteor) = try places(options, settings)
        if feed == nil && meteor == nil {
            throw ValidationError(
                "Missing --channel, --manifest or --meteor: give one of them, set CLIENTCTL_CHANNEL, CLIENTCTL_MANIFEST or "
                    + "CLIENTCTL_METEOR, or put \"channel\", \"manifest\" or \"meteor\" into the configuration file.")
        }
        let given = try options.channels.order(settings)
        let store = try settings.required("store", options.place.store)
        // A ledger that cannot be read is the updater's to repair.
        let order = given ?? (try? Inventory.read(at: store))?.ledger.channels ?? .standard
        let off = ChannelName.allCases.filter { !order.names.contains($0) }
        // A flag leaves a channel out. What the store remembers only keeps its clients from running.
        let named = off.filter { given == nil && ($0 == .archive ? feed != nil : meteor != nil) }
        for name in named {
            Answer.say(
                "clientctl: the channel \(name) is switched off in this store: what it brings does not run until it is named "
                    + "with --channels")
        }
        return try (order.names + named).compactMap { name in
            switch name {
            case .archive: try feed.map { try archive($0, options, settings, report) }
            case .meteor: try meteor.map { try hotCodePush($0, isAlone: feed == nil, options, settings, report) }
            }
        }
    }

    /// The same for a command that has nothing to do without one.
    static func someChannels(
        _ options: UpdateOptions, _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> [ChannelWork] {
        let channels = try channels(options, settings, report: report)
        if channels.isEmpty {
            throw ValidationError(
                "--channels leaves out the only channel that has an address: there is nothing to do. Name it there, or give "
                    + "the other channel's address.")
        }
        return channels
    }

    /// Whether anything names a feed or a server to follow.
    static func hasFeed(_ options: UpdateOptions, _ settings: Settings) throws -> Bool {
        try settings.optional("manifest", options.manifest) != nil
            || settings.optional("channel", options.channel) != nil
            || settings.optional("meteor", options.meteor.meteor) != nil
    }

    /// Where archives come from: a channel document or a flat manifest; nil where neither is named.
    private static func source(
        _ options: UpdateOptions, _ settings: Settings, isFlagged: Bool
    ) throws -> ReleaseSource? {
        let manifest = isFlagged ? options.manifest : try settings.optional("manifest", nil)
        let channel = isFlagged ? options.channel : try settings.optional("channel", nil)
        switch (manifest, channel) {
        case (nil, nil): return nil
        case (let manifest?, nil): return .manifest(try url(manifest))
        case (nil, let channel?): return .channel(try url(channel))
        case (_?, _?):
            throw ValidationError(
                "Give --channel or --manifest, not both: a channel document holds the manifests of its releases.")
        }
    }

    private static func archive(
        _ source: ReleaseSource, _ options: UpdateOptions, _ settings: Settings,
        _ report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> ChannelWork {
        let trust = try settings.required("trust", options.trust)
        let channel = ArchiveChannel(
            source: source, anchor: try TrustAnchor.read(at: trust),
            deviceId: ArchiveChannel.DeviceId(
                given: try settings.optional("device-id", options.deviceId), machine: try MachineIdentity.deviceId()),
            limits: try options.limits.limits(settings),
            fetcher: try fetcher(
                options.network, for: source.url, store: settings.required("store", options.place.store), settings),
            report: report)
        return ChannelWork(
            try updater(channel, appId: try settings.optional("app-id", options.appId), options, settings))
    }

    private static func hotCodePush(
        _ rootURL: String, isAlone: Bool, _ options: UpdateOptions, _ settings: Settings,
        _ report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> ChannelWork {
        let url = try settings.parsed("meteor", rootURL) { try FetchURL(parsing: $0) }
        if url.isFile { throw ValidationError("--meteor takes the http or https address of a server, not a file.") }
        var server = MeteorSource(rootURL: url, platform: try platform(options.meteor.platform, settings))
        server.verification = try verification(options.meteor, settings)
        // Beside archives, --app-id is their word for the application, which Meteor does not know.
        if isAlone { server.appId = try settings.optional("app-id", options.appId) }
        server.maximumFiles = try options.limits.limits(settings).entries
        let layout = MeteorBundles(platform: server.platform)
        let seed = try settings.optional("seed", options.seed).map { try SeedFolder(at: $0, layout: layout) }
        if let trouble = seed?.trouble { Answer.say("clientctl: \(trouble)") }
        let channel = try MeteorChannel(
            server, seed: seed,
            fetcher: try fetcher(
                options.network, for: url, store: settings.required("store", options.place.store), settings),
            report: report)
        return ChannelWork(try updater(channel, appId: nil, options, settings))
    }

    private static func platform(_ given: String?, _ settings: Settings) throws -> MeteorPlatform {
        let text = try settings.optional("platform", given) ?? MeteorPlatform.android.rawValue
        guard let platform = MeteorPlatform(rawValue: text) else {
            throw ValidationError("--platform is android or ios, not \(UntrustedName.display(text)).")
        }
        return platform
    }

    private static func verification(_ options: MeteorOptions, _ settings: Settings) throws -> VerificationMode {
        switch try settings.optional("verify-assets", options.verifyAssets) {
        case nil, "compatible"?: return .compatible
        case "strict"?: return .strict
        case let text?:
            throw ValidationError("--verify-assets is compatible or strict, not \(UntrustedName.display(text)).")
        }
    }

    private static func updater<Channel: UpdateChannel>(
        _ channel: Channel, appId: String?, _ options: UpdateOptions, _ settings: Settings
    ) throws -> Updater<Channel> {
        let shell = try settings.required("shell-version", options.shellVersion)
        let device = Updater<Channel>.Device(
            store: try settings.required("store", options.place.store),
            shell: try settings.parsed("shell-version", shell) { try SemanticVersion(parsingArgument: $0) },
            appId: appId,
            keep: try settings.keep(options.keep), channels: try options.channels.order(settings))
        return Updater(channel: channel, device: device) { Answer.say("clientctl: \($0)") }
    }

    static func launcher(
        _ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings
    ) throws -> Launcher {
        try Launcher(try device(place, shell, settings)) { Answer.say("clientctl: \($0)") }
    }

    /// Who and where the device is.
    static func device(
        _ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings
    ) throws -> Launcher.Device {
        let version = try settings.required("shell-version", shell.shellVersion)
        return Launcher.Device(
            store: try settings.required("store", place.store),
            shell: try settings.parsed("shell-version", version) { try SemanticVersion(parsingArgument: $0) },
            seed: try settings.optional("seed", shell.seed),
            verifies: try settings.isOn("verify-on-launch", shell.verifyOnLaunch),
            layout: MeteorBundles(platform: try platform(shell.platform, settings)),
            channels: try shell.channels.order(settings))
    }

    /// The picture of a store; says so on stderr where there is none yet, since the path may be wrong.
    static func inventory(_ store: String) throws -> Inventory {
        if try !Inventory.exists(at: store) { Answer.say("clientctl: there is no store at \(store) yet") }
        return try Inventory.read(at: store)
    }

    /// The seed is what runs when nothing else can, so it had better be there before anything is installed over it.
    static func requireSeed(_ options: UpdateOptions, _ settings: Settings) throws {
        guard let path = try settings.optional("seed", options.seed) else { return }
        guard case .file? = try Directory.open(path).kind(of: "index.html") else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The seed \(path) has no index.html: name the shell's own client folder."
            )
        }
    }
}
