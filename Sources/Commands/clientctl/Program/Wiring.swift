import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import BundleShell
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
        _ store: String, creates: Bool = false, by change: (FileSessionRepository) throws -> SessionRecord
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
        return TrustedTime.at(Timestamp(clamping: 0), knowing: memory)
    }

    /// Returns the addresses of the feed and the Meteor server.
    static func places(_ options: UpdateOptions) throws -> (feed: FeedAddress?, meteor: String?) {
        (try feed(manifest: options.manifest, channel: options.channel), options.meteor)
    }

    /// Returns the device with its feed and its Meteor server.
    static func container(
        _ options: UpdateOptions, configuration: ShellConfiguration, keepingSession: Bool = false,
        report: UpdateObserver
    ) throws -> DeviceContainer {
        let (feed, meteor) = try places(options)
        if feed == nil, meteor == nil, CommandLineFlags.contain("trust") {
            throw ValidationError("--trust needs a feed: add --channel or --manifest.")
        }
        var container = DeviceContainer(configuration, network: .command, environment: .command)
        container.report = report
        container.gate = try gate(options, store: configuration.device.store)
        container.feed = try feed.map { try self.feed($0, options: options, keepingSession: keepingSession) }
        container.server = try meteor.map {
            try server($0, isAlone: feed == nil, options: options, keepingSession: keepingSession)
        }
        return container
    }

    /// Returns the sources of updates. Throws `MissingFlag` without an address, or `ValidationError` if `--sources` excludes all addresses.
    static func sources(
        _ options: UpdateOptions, of kind: ReleaseKind = .client, report: UpdateObserver
    ) throws -> [any DeviceSource] {
        let (feed, meteor) = try places(options)
        if feed == nil && meteor == nil {
            throw MissingFlag(flags: ["channel", "manifest", "meteor"])
        }
        let configuration = try configuration(options, verifies: false)
        var container = try container(options, configuration: configuration, report: report)
        container.feed?.kind = kind
        let sources = try container.sources()
        if sources.isEmpty {
            throw ValidationError(
                "--sources excludes the only source with an address, so there is nothing to do. Add it to --sources, or give "
                    + "the address of the other source.")
        }
        return sources
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
        _ source: FeedAddress, options: UpdateOptions, keepingSession: Bool
    ) throws -> DeviceContainer.Feed {
        let store = try FlagValue.required(options.store, of: "store")
        var feed = DeviceContainer.Feed(
            source, trust: try FlagValue.required(options.trust, of: "trust"), appId: options.appId,
            fetcher: try fetcher(options.network, for: source.url, store: store, keepingSession: keepingSession))
        feed.deviceId = options.deviceId
        feed.groups = try options.group.map { text in
            guard let groups = DeviceGroup.list(text) else {
                throw ValidationError(
                    "--group takes none, or at most \(DeviceGroup.most) names separated by commas: \(DeviceGroup.rule)."
                )
            }
            return groups
        }
        feed.limits = try options.limits.limits()
        feed.mirrorFetcher = try mirrorFetcher(
            options.network, token: options.downloads.mirrorTokenFile, mirrors: options.downloads.mirror)
        return feed
    }

    private static func server(
        _ rootURL: String, isAlone: Bool, options: UpdateOptions, keepingSession: Bool
    ) throws -> DeviceContainer.Server {
        let url = try FlagValue.url(rootURL, of: "meteor")
        if url.isFile { throw ValidationError("--meteor takes the http or https URL of a server, not a file.") }
        var server = MeteorServerOptions(rootURL: url, platform: try platform(options.platform))
        server.verification = try verification(options.verifyAssets)
        // With a feed, `--app-id` is the application of its archives, which Meteor does not use.
        if isAlone { server.appId = options.appId }
        server.maximumFiles = try options.limits.limits().entries
        let store = try FlagValue.required(options.store, of: "store")
        return DeviceContainer.Server(
            server, fetcher: try fetcher(options.network, for: url, store: store, keepingSession: keepingSession))
    }

    static func platform(_ given: String?) throws -> MeteorPlatform {
        let text = given ?? MeteorPlatform.android.rawValue
        guard let platform = MeteorPlatform(rawValue: text) else {
            throw ValidationError("--platform is android or ios, not \(UntrustedName.display(text)).")
        }
        return platform
    }

    private static func verification(_ verifyAssets: String?) throws -> VerificationMode {
        switch verifyAssets {
        case nil, "compatible"?: return .compatible
        case "strict"?: return .strict
        case let text?:
            throw ValidationError("--verify-assets is compatible or strict, not \(UntrustedName.display(text)).")
        }
    }

    /// Launches an installed client or the seed, without updates.
    static func launch(_ place: StoreOptions, shell: ShellOptions) throws -> Launched {
        let configuration = ShellConfiguration(device: try device(place.store, shell: shell))
        // Without a seed, an empty store has nothing to launch, so none is created.
        if configuration.device.seed == nil { try requireStore(configuration.device.store) }
        return try DeviceContainer(configuration, network: .command, environment: .command)
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
    static func configuration(_ options: UpdateOptions, verifies: Bool) throws -> ShellConfiguration {
        var shell = ShellOptions()
        shell.shellVersion = options.shellVersion
        shell.seed = options.seed
        shell.verifyOnLaunch = verifies
        shell.sources = options.sources
        shell.platform = options.platform
        var configuration = ShellConfiguration(device: try device(options.store, shell: shell))
        configuration.keep = try FlagValue.keep(options.keep)
        return configuration
    }

    /// Returns the store and the shell of the device.
    private static func device(_ store: String?, shell: ShellOptions) throws -> Launcher.LaunchDevice {
        var device = Launcher.LaunchDevice(
            store: try FlagValue.required(store, of: "store"),
            shell: try shell.shellVersion.map { try FlagValue.version($0, of: "shell-version") }
                ?? ProgramVariables.runningVersion ?? .zero,
            seed: shell.seed,
            verifies: shell.verifyOnLaunch, sources: try SourceOrder.chosen(shell.sources))
        device.layout = MeteorBundles(platform: try platform(shell.platform))
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
        if isEmpty { Output.say("there is no store at \(store): check the path, unless nothing was installed yet") }
        return try Inventory.read(at: store) { Output.warn($0.message) }
    }

    /// Throws `UpdateFailure` if the seed has no index page. Checked before an installation, because the device falls back to the seed.
    static func requireSeed(_ options: UpdateOptions) throws {
        guard let path = options.seed else { return }
        guard case .file? = try Directory.open(path).kind(of: "index.html") else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The seed \(path) has no index.html. Name the folder that contains it."
            )
        }
    }
}
