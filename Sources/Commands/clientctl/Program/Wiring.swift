import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import ClientShell
import BundlePublish
import BundleSigning
import CLibrary
import MeteorSource

/// Creates the concrete adapters from settings. No other file of the commands names them.
enum Wiring {
    /// Returns the service manager that started this process. Call this once.
    static func serviceManager() -> ServiceManager { ServiceManager.adopt() }

    /// Returns the repository of the device's session.
    static func sessions(_ store: String) -> FileSessionRepository { FileSessionRepository(store: store) }

    /// Changes the session record of a store. Throws `UpdateFailure` with `configInvalid` if there is no store at the path, which may be
    /// misspelled, unless the caller `creates` it.
    static func changingSessions(
        _ store: String, creates: Bool = false, _ change: (FileSessionRepository) throws -> SessionRecord
    ) throws -> SessionRecord {
        if !creates && !File.exists(store) {
            throw UpdateFailure(
                .configInvalid, subject: store,
                "No store found at \(store): check the path. `clientctl session login` and `screen lock` create one with --create."
            )
        }
        return try change(sessions(store))
    }

    /// Returns the earliest possible time: the latest signed time in the store or the age of this program, whichever is later.
    static func earliestTime(_ store: String) -> Timestamp {
        let memory = (try? Inventory.read(at: store).ledger.feed) ?? FeedMemory()
        return TrustedTime.at(Timestamp(clamping: 0), memory)
    }

    /// Returns a fetcher that sends a token only to the origin of `url`. This is the token of `--token-file`, or otherwise of the session of
    /// `store`. `keepingSession` keeps the session if the server rejects its token.
    static func fetcher(
        _ network: NetworkOptions, for url: FetchURL, store: String? = nil, keepingSession: Bool = false,
        _ settings: Settings
    ) throws -> any Fetcher {
        var options = try network.fetching(settings)
        options.credential = try credential(network, for: url, settings)
        options.headers = try headers(network, for: url, settings)
        guard options.credential == nil, let store else { return try DeviceContainer.fetcher(options) }
        return try DeviceContainer.fetcher(
            options, for: url,
            sessions: keepingSession ? KeptSessions(sessions: sessions(store)) : sessions(store),
            report: { Output.warn(UpdateFailure($0).message) })
    }

    /// Returns a fetcher for reports, which any server may receive. It sends the token only to the origin of the feed or the Meteor server
    /// that the device follows, and no token if the device follows neither.
    static func fetcher(
        _ network: NetworkOptions, reportingOf followed: (feed: FeedAddress?, meteor: String?), store: String,
        _ settings: Settings
    ) throws -> any Fetcher {
        let meteor = try followed.meteor.map { text in
            try settings.parsed("meteor", text) { try FetchURL(parsing: $0) }
        }
        guard let origin = followed.feed?.url ?? meteor else {
            return try DeviceContainer.fetcher(try network.fetching(settings))
        }
        return try fetcher(network, for: origin, store: store, settings)
    }

    /// Returns the fetcher of a relay for its upstream. Its timeouts are short, because a relay polls again soon.
    static func fetcher(_ relay: RelayOptions, for url: FetchURL, _ settings: Settings) throws -> any Fetcher {
        var options = try relay.way.fetching(settings)
        options.credential = try settings.optional("upstream-token-file", relay.upstreamTokenFile)
            .map { try credential($0, for: url) }
        options.connectTimeout = .seconds(5)
        options.stallTimeout = .seconds(10)
        options.minimumCeiling = .seconds(30)
        return UpstreamFetcher(fetcher: try DeviceContainer.fetcher(options))
    }

    /// Returns a fetcher for the roster at `url`, with the token in this file.
    static func fetcher(
        _ way: WayOptions, token: String?, for url: FetchURL, _ settings: Settings
    ) throws -> any Fetcher {
        var options = try way.fetching(settings)
        options.credential = try token.map { try credential($0, for: url) }
        return try DeviceContainer.fetcher(options)
    }

    /// Returns the token of `--token-file` for the origin of `url`; nil without the flag.
    static func credential(
        _ network: NetworkOptions, for url: FetchURL, _ settings: Settings
    ) throws -> BearerCredential? {
        try settings.optional("token-file", network.tokenFile).map { try credential($0, for: url) }
    }

    private static func credential(_ path: String, for url: FetchURL) throws -> BearerCredential {
        let bytes = try TokenFile.contents(of: path)
        do {
            return try BearerCredential(tokenFile: bytes, origin: url.origin)
        } catch {
            throw UpdateFailure(.configInvalid, subject: path, "The token in \(path) is invalid: \(error)")
        }
    }

    /// Returns the addresses of the feed and the Meteor server. If a flag gives one of them, the environment and the configuration file are
    /// ignored for both.
    static func places(
        _ options: UpdateOptions, _ settings: Settings
    ) throws -> (feed: FeedAddress?, meteor: String?) {
        let isFlagged = options.manifest != nil || options.channel != nil || options.meteor != nil
        return (
            try source(options, settings, isFlagged: isFlagged),
            isFlagged ? options.meteor : try settings.optional("meteor", nil)
        )
    }

    /// Returns the device with its feed and its Meteor server.
    static func container(
        _ options: UpdateOptions, _ configuration: ShellConfiguration, keepingSession: Bool = false,
        _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> DeviceContainer {
        let (feed, meteor) = try places(options, settings)
        if feed == nil, meteor == nil, options.trust != nil {
            throw ValidationError("--trust needs a feed: add --channel or --manifest.")
        }
        var container = DeviceContainer(configuration) { Output.warn($0) }
        container.report = report
        container.gate = try gate(options, store: configuration.device.store, settings)
        container.feed = try feed.map { try self.feed($0, options, keepingSession: keepingSession, settings) }
        container.server = try meteor.map {
            try server($0, isAlone: feed == nil, options, keepingSession: keepingSession, settings)
        }
        return container
    }

    /// Returns the sources of updates. Throws `MissingFlag` without an address, or `ValidationError` if `--sources` excludes all addresses.
    static func sources(
        _ options: UpdateOptions, _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> [any DeviceSource] {
        let (feed, meteor) = try places(options, settings)
        if feed == nil && meteor == nil {
            throw MissingFlag(flags: ["channel", "manifest", "meteor"])
        }
        let configuration = try configuration(options, verifies: false, settings)
        let sources = try container(options, configuration, settings, report: report).sources()
        if sources.isEmpty {
            throw ValidationError(
                "--sources excludes the only source with an address, so there is nothing to do. Add it to --sources, or give "
                    + "the address of the other source.")
        }
        return sources
    }

    /// Returns the address of the channel file or the manifest; nil if neither is set.
    private static func source(
        _ options: UpdateOptions, _ settings: Settings, isFlagged: Bool
    ) throws -> FeedAddress? {
        try feed(
            manifest: isFlagged ? options.manifest : try settings.optional("manifest", nil),
            channel: isFlagged ? options.channel : try settings.optional("channel", nil))
    }

    /// Returns the address of the given channel file or manifest; nil if both are nil. Throws `ValidationError` if both are set.
    static func feed(manifest: String?, channel: String?) throws -> FeedAddress? {
        for (name, value) in [("manifest", manifest), ("channel", channel)] where value?.isEmpty == true {
            throw ValidationError("--\(name) is empty. Give a URL or a path.")
        }
        switch (manifest, channel) {
        case (nil, nil): return nil
        case (let manifest?, nil):
            try requireFile(manifest, such: "manifest.json")
            return .manifest(try url(manifest))
        case (nil, let channel?):
            try requireFile(channel, such: "channels/stable.json")
            if channel.hasSuffix("/manifest.json"), !channel.hasSuffix("channels/manifest.json") {
                throw UpdateFailure(
                    .configInvalid, subject: channel, "\(UntrustedName.display(channel)) is a manifest. Use --manifest."
                )
            }
            return .channel(try url(channel))
        case (_?, _?):
            throw ValidationError(
                "Give --channel or --manifest, not both. A channel file contains the manifests of its releases.")
        }
    }

    /// Throws `UpdateFailure` if `text` is a folder and not a document.
    private static func requireFile(_ text: String, such name: String) throws {
        guard !text.contains("://"), (try? Directory.open(text)) != nil else { return }
        let folder = text.hasSuffix("/") ? String(text.dropLast()) : text
        throw UpdateFailure(
            .configInvalid, subject: text, "\(text) is a folder. Give a file, such as \(folder)/\(name).")
    }

    private static func feed(
        _ source: FeedAddress, _ options: UpdateOptions, keepingSession: Bool, _ settings: Settings
    ) throws -> DeviceContainer.Feed {
        let store = try settings.required("store", options.store)
        var feed = DeviceContainer.Feed(
            source, trust: try settings.required("trust", options.trust),
            appId: try settings.optional("app-id", options.appId),
            fetcher: try fetcher(
                options.network, for: source.url, store: store, keepingSession: keepingSession, settings))
        feed.deviceId = try settings.optional("device-id", options.deviceId)
        feed.groups = try settings.optional("group", options.group).map { text in
            guard let groups = DeviceGroup.list(text) else {
                throw ValidationError(
                    "--group takes none, or at most \(DeviceGroup.most) names separated by commas: \(DeviceGroup.rule)."
                )
            }
            return groups
        }
        feed.limits = try options.limits.limits(settings)
        feed.mirrorFetcher = try mirrorFetcher(options.network, settings)
        return feed
    }

    private static func server(
        _ rootURL: String, isAlone: Bool, _ options: UpdateOptions, keepingSession: Bool, _ settings: Settings
    ) throws -> DeviceContainer.Server {
        let url = try settings.parsed("meteor", rootURL) { try FetchURL(parsing: $0) }
        if url.isFile { throw ValidationError("--meteor takes the http or https URL of a server, not a file.") }
        var server = MeteorServerOptions(rootURL: url, platform: try platform(options.platform, settings))
        server.verification = try verification(options.verifyAssets, settings)
        // With a feed, `--app-id` is the application of its archives, which Meteor does not use.
        if isAlone { server.appId = try settings.optional("app-id", options.appId) }
        server.maximumFiles = try options.limits.limits(settings).entries
        let store = try settings.required("store", options.store)
        return DeviceContainer.Server(
            server,
            fetcher: try fetcher(
                options.network, for: url, store: store, keepingSession: keepingSession, settings))
    }

    static func platform(_ given: String?, _ settings: Settings) throws -> MeteorPlatform {
        let text = try settings.optional("platform", given) ?? MeteorPlatform.android.rawValue
        guard let platform = MeteorPlatform(rawValue: text) else {
            throw ValidationError("--platform is android or ios, not \(UntrustedName.display(text)).")
        }
        return platform
    }

    private static func verification(_ verifyAssets: String?, _ settings: Settings) throws -> VerificationMode {
        switch try settings.optional("verify-assets", verifyAssets) {
        case nil, "compatible"?: return .compatible
        case "strict"?: return .strict
        case let text?:
            throw ValidationError("--verify-assets is compatible or strict, not \(UntrustedName.display(text)).")
        }
    }

    /// Launches an installed client or the seed, without updates.
    static func launch(_ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings) throws -> Launched {
        let configuration = ShellConfiguration(device: try device(place.store, shell, settings))
        // Without a seed, an empty store has nothing to launch, so none is created.
        if configuration.device.seed == nil { try requireStore(configuration.device.store) }
        return try DeviceContainer(configuration) { Output.warn($0) }
            .launch(for: sessionStatus(configuration.device.store))
    }

    /// Returns the current status of the device's session. A session that cannot be read admits guests only.
    static func sessionStatus(_ store: String) -> SessionStatus {
        do {
            return try sessions(store).record().status(at: .now)
        } catch {
            Output.warn("\(UpdateFailure(error).message) Guests see the seed.")
            return .unauthenticated(.unreadable)
        }
    }

    /// Returns the configuration of a device that updates itself.
    static func configuration(
        _ options: UpdateOptions, verifies: Bool, _ settings: Settings
    ) throws -> ShellConfiguration {
        var shell = ShellOptions()
        shell.shellVersion = options.shellVersion
        shell.seed = options.seed
        shell.verifyOnLaunch = verifies
        shell.sources = options.sources
        shell.platform = options.platform
        var configuration = ShellConfiguration(device: try device(options.store, shell, settings))
        configuration.keep = try settings.keep(options.keep)
        return configuration
    }

    /// Returns the store and the shell of the device.
    private static func device(
        _ store: String?, _ shell: ShellOptions, _ settings: Settings
    ) throws -> Launcher.LaunchDevice {
        let version = try settings.optional("shell-version", shell.shellVersion) ?? ShellOptions.noVersion
        var device = Launcher.LaunchDevice(
            store: try settings.required("store", store),
            shell: try settings.parsed("shell-version", version) { try SemanticVersion(parsingArgument: $0) },
            seed: try settings.optional("seed", shell.seed),
            verifies: try settings.isOn("verify-on-launch", shell.verifyOnLaunch),
            sources: try SourceOrder.chosen(shell.sources, settings))
        device.layout = MeteorBundles(platform: try platform(shell.platform, settings))
        return device
    }

    /// Throws `UpdateFailure` if there is no store at the path.
    static func requireStore(_ store: String) throws {
        if try !Inventory.exists(at: store) { throw noStore(at: store) }
    }

    private static func noStore(at path: String) -> UpdateFailure {
        UpdateFailure(.configInvalid, subject: path, "No store found at \(path): check the path.")
    }

    /// Returns the inventory of a store. Prints a note on standard error if there is no store, because the path may be wrong.
    static func inventory(_ store: String) throws -> Inventory {
        let folder = File.exists(store) ? try Directory.open(store) : nil
        if let folder { try StoreMark.require(in: folder) }
        // `clientctl screen lock` may have created the store.
        let isEmpty = try folder?.list().isEmpty ?? true
        if isEmpty { Output.say("the store \(store) does not exist yet") }
        return try Inventory.read(at: store) { Output.warn($0.message) }
    }

    /// Throws `UpdateFailure` if the seed has no index page. Checked before an installation, because the device falls back to the seed.
    static func requireSeed(_ options: UpdateOptions, _ settings: Settings) throws {
        guard let path = try settings.optional("seed", options.seed) else { return }
        guard case .file? = try Directory.open(path).kind(of: "index.html") else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The seed \(path) has no index.html. Name the folder that contains it."
            )
        }
    }
}

/// Fetches through `fetcher`. The error of a response 401 names the relay's own flag for the token.
private struct UpstreamFetcher: Fetcher {
    let fetcher: any Fetcher

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        do {
            return try await fetcher.fetch(request, into: &sink)
        } catch FetchError.httpStatus(401, let url, _) {
            throw UpdateFailure(
                .httpStatus, subject: url.display,
                "\(url.display) answered 401. It requires a valid token: give one with --upstream-token-file.")
        }
    }
}
