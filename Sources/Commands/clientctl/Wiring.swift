import ArchiveSource
import ArgumentParser
import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import ClientShell
import BundlePublish
import BundleSigning
import Glibc
import MeteorSource

/// Builds real collaborators out of settings; the only place here that names concrete adapters.
enum Wiring {
    /// The address that an argument means: a URL, or the path of a file.
    static func url(_ text: String) throws -> FetchURL {
        if text.contains("://") { return try FetchURL(parsing: text) }
        return try FetchURL(filePath: Array(try absolute(text).utf8))
    }

    /// The same for a command that shows or checks a document: of a feed's folder, its manifest.
    static func document(_ text: String) throws -> String {
        if text.contains("://") { return text }
        let folder: Directory
        do throws(DiskError) {
            folder = try Directory.open(text)
        } catch {
            if error.kind == .unsuitable { return text }
            throw error
        }
        if case .file? = try folder.kind(of: "manifest.json") { return "\(text)/manifest.json" }
        throw UpdateFailure(
            .configInvalid, subject: text,
            "\(text) is a folder without a manifest.json: name a feed, or a manifest, channel document, trust root or archive in it."
        )
    }

    /// Where the feed is that `--feed` names.
    static func place(
        _ feed: String?, _ bucket: BucketOptions, _ settings: Settings, progress: Progress? = nil
    ) throws -> any FeedLocation {
        let text = try settings.required("feed", feed)
        let place = try place(at: text, bucket.reading, settings, terms: bucket.terms(settings), progress: progress)
        try bucket.requireBucket(place)
        return place
    }

    /// The same for a command that only reads, of any address.
    static func place(
        at text: String, _ reading: BucketReading, _ settings: Settings, terms: BucketTerms = BucketTerms(),
        progress: Progress? = nil
    ) throws -> any FeedLocation {
        if !looksLikeURL(text) {
            try requireLocal(text)
            return FeedFolder(text)
        }
        guard let address = BucketAddress(parsing: text) else {
            throw ValidationError(
                "--feed takes a folder, or a bucket such as s3://bucket/prefix (letters, digits and ._~- only), not "
                    + "\(UntrustedName.display(text)).")
        }
        let client = try reading.client(address, settings)
        if let progress { client.progress = progress.uploaded }
        return BucketLocation(address, client, terms)
    }

    /// Refuses an address of another machine, as scp and rsync take it: a folder of that name here would reach no device.
    static func requireLocal(_ text: String) throws {
        guard text.prefix(while: { $0 != "/" }).contains(":") else { return }
        let shown = UntrustedName.display(text)
        throw ValidationError(
            "\(shown) names another machine, and clientctl writes into folders and buckets only. Publish into a folder here and "
                + "copy it with rsync, archives first; write ./\(shown) if it is a folder.")
    }

    /// Whether `text` is meant to be an address, be it misspelled: `s3:/bucket` is no folder that anybody wants.
    private static func looksLikeURL(_ text: String) -> Bool {
        let lower = text.lowercased()
        return text.contains("://") || ["s3:", "http:", "https:", "file:"].contains(where: lower.hasPrefix)
    }

    /// Brings the document at `s3://bucket/…`, and the archive that it names, into `folder`; returns the document's path. Of a feed, that
    /// is its manifest.
    static func bring(
        _ text: String, into folder: Directory, _ limits: ArchiveLimits, _ reading: BucketReading,
        _ settings: Settings
    ) throws -> String {
        let (place, path) = try bucketDocument(text, reading, settings)
        try FeedCopy.copyRelease(path, from: place, into: folder, limits)
        return "\(folder.path)/\(path)"
    }

    /// Whether `path` is `folder` or in it, by their names.
    static func isInside(_ path: String, folder: String) throws -> Bool {
        func parts(_ path: String) throws -> [Substring] {
            try absolute(path).split(separator: "/").reduce(into: []) { parts, part in
                if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
            }
        }
        return try parts(path).starts(with: parts(folder))
    }

    /// Returns the feed in a bucket that has the document at `s3://bucket/…`, and the document's path below that feed.
    static func bucketDocument(
        _ text: String, _ reading: BucketReading, _ settings: Settings
    ) throws -> (place: any FeedLocation, path: String) {
        let parts = text.dropFirst("s3://".count).split(separator: "/").map(String.init)
        let isDocument = parts.count > 1 && parts.last?.hasSuffix(".json") == true
        let name = isDocument ? parts[parts.count - 1] : "manifest.json"
        let above = isDocument ? parts.dropLast() : parts[...]
        let depth = FeedDocument.depth(of: name, in: Array(above.dropFirst()))
        let place = try place(at: "s3://" + above.dropLast(depth).joined(separator: "/"), reading, settings)
        return (place, (above.suffix(depth) + [name]).joined(separator: "/"))
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

    /// Changes what the store remembers of sessions. A path without a store may be misspelled, so one is made there only if the caller
    /// `creates` it; throws `UpdateFailure` with `configInvalid` otherwise.
    static func changingSessions(
        _ store: String, creates: Bool = false, _ change: (FileSessionRepository) throws -> SessionRecord
    ) throws -> SessionRecord {
        if !creates && !File.exists(store) {
            throw UpdateFailure(
                .configInvalid, subject: store,
                "There is no store at \(store): check the path. `clientctl login` and `lock` make one with --create.")
        }
        return try change(sessions(store))
    }

    /// The time before which it cannot be: the latest that the store has found signed, and the age of this program.
    static func earliestTime(_ store: String) -> Timestamp {
        let memory = (try? Inventory.read(at: store).ledger.feed) ?? FeedMemory()
        return TrustedTime.at(Timestamp(clamping: 0), memory)
    }

    /// Shows the token of `--token-file`, else that of the session of `store`, to the origin of `url` alone. A session that is kept
    /// outlives its refusal.
    static func fetcher(
        _ network: NetworkOptions, for url: FetchURL, store: String? = nil, keepingSession: Bool = false,
        _ settings: Settings
    ) throws -> any Fetcher {
        var options = try network.fetching(settings)
        options.credential = try credential(network, for: url, settings)
        guard options.credential == nil, let store else { return try DeviceContainer.fetcher(options) }
        return try DeviceContainer.fetcher(
            options, for: url,
            sessions: keepingSession ? KeptSessions(sessions: sessions(store)) : sessions(store),
            report: { Output.say("clientctl: \(UpdateFailure($0).message)") })
    }

    /// The same for reports, which go anywhere: a token is for the feed or the Meteor server that the device follows, and nobody's
    /// where none is known.
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

    /// What a relay looks at its upstream with: it looks again soon, so it waits for nothing.
    static func fetcher(_ relay: RelayOptions, for url: FetchURL, _ settings: Settings) throws -> any Fetcher {
        var options = try relay.way.fetching(settings)
        options.credential = try settings.optional("upstream-token-file", relay.upstreamTokenFile)
            .map { try credential($0, for: url) }
        options.connectTimeout = .seconds(5)
        options.stallTimeout = .seconds(10)
        options.minimumCeiling = .seconds(30)
        return UpstreamFetcher(fetcher: try DeviceContainer.fetcher(options))
    }

    /// The token of `--token-file`, for the origin of `url`; nil where no file is named.
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
            throw UpdateFailure(.configInvalid, subject: path, "The token of \(path) is not used: \(error)")
        }
    }

    /// The feed and the Meteor server that are named. Flags name them; where none does, the environment and the file.
    static func places(
        _ options: UpdateOptions, _ settings: Settings
    ) throws -> (feed: FeedAddress?, meteor: String?) {
        let isFlagged = options.manifest != nil || options.channel != nil || options.meteor != nil
        return (
            try source(options, settings, isFlagged: isFlagged),
            isFlagged ? options.meteor : try settings.optional("meteor", nil)
        )
    }

    /// The device, with whatever feed and server are named.
    static func container(
        _ options: UpdateOptions, _ configuration: ShellConfiguration, keepingSession: Bool = false,
        _ settings: Settings, report: @escaping @Sendable (UpdateEvent) -> Void
    ) throws -> DeviceContainer {
        let (feed, meteor) = try places(options, settings)
        if feed == nil, meteor == nil, options.trust != nil {
            throw ValidationError("--trust is about a feed: name it with --channel or --manifest.")
        }
        var container = DeviceContainer(configuration) { Output.say("clientctl: \($0)") }
        container.report = report
        container.feed = try feed.map { try self.feed($0, options, keepingSession: keepingSession, settings) }
        container.server = try meteor.map {
            try server($0, isAlone: feed == nil, options, keepingSession: keepingSession, settings)
        }
        return container
    }

    /// The sources that a command works with, which has nothing to do without one.
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
                "--sources leaves out the only channel that has an address: there is nothing to do. Name it there, or give "
                    + "the other channel's address.")
        }
        return sources
    }

    /// Where archives come from: a channel document or a flat manifest; nil where neither is named.
    private static func source(
        _ options: UpdateOptions, _ settings: Settings, isFlagged: Bool
    ) throws -> FeedAddress? {
        try feed(
            manifest: isFlagged ? options.manifest : try settings.optional("manifest", nil),
            channel: isFlagged ? options.channel : try settings.optional("channel", nil))
    }

    /// The same by what was given.
    static func feed(manifest: String?, channel: String?) throws -> FeedAddress? {
        for (name, value) in [("manifest", manifest), ("channel", channel)] where value?.isEmpty == true {
            throw ValidationError("--\(name) is empty: give the address or the path of one.")
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
                    .configInvalid, subject: channel, "\(UntrustedName.display(channel)) is a manifest: use --manifest."
                )
            }
            return .channel(try url(channel))
        case (_?, _?):
            throw ValidationError(
                "Give --channel or --manifest, not both: a channel document holds the manifests of its releases.")
        }
    }

    /// Refuses a folder, where a document in it is meant.
    private static func requireFile(_ text: String, such name: String) throws {
        guard !text.contains("://"), (try? Directory.open(text)) != nil else { return }
        let folder = text.hasSuffix("/") ? String(text.dropLast()) : text
        throw UpdateFailure(.configInvalid, subject: text, "\(text) is a folder: name \(folder)/\(name).")
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
                    "--group takes at most \(DeviceGroup.most) names with commas between them, or none: \(DeviceGroup.rule)."
                )
            }
            return groups
        }
        feed.limits = try options.limits.limits(settings)
        return feed
    }

    private static func server(
        _ rootURL: String, isAlone: Bool, _ options: UpdateOptions, keepingSession: Bool, _ settings: Settings
    ) throws -> DeviceContainer.Server {
        let url = try settings.parsed("meteor", rootURL) { try FetchURL(parsing: $0) }
        if url.isFile { throw ValidationError("--meteor takes the http or https address of a server, not a file.") }
        var server = MeteorServerOptions(rootURL: url, platform: try platform(options.platform, settings))
        server.verification = try verification(options.verifyAssets, settings)
        // Beside archives, --app-id is their word for the application, which Meteor does not know.
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

    /// A device that only launches what is here.
    static func launch(_ place: StoreOptions, _ shell: ShellOptions, _ settings: Settings) throws -> Launched {
        let configuration = ShellConfiguration(device: try device(place.store, shell, settings))
        // Where there is nothing to launch, no store is made for it.
        if configuration.device.seed == nil { try requireStore(configuration.device.store) }
        return try DeviceContainer(configuration) { Output.say("clientctl: \($0)") }
            .launch(for: sessionStatus(configuration.device.store))
    }

    /// What the session of the device is worth now. One that cannot be read admits guests.
    static func sessionStatus(_ store: String) -> SessionStatus {
        do {
            return try sessions(store).record().status(at: .now)
        } catch {
            Output.say("clientctl: \(UpdateFailure(error).message) Guests see the seed.")
            return .unauthenticated(.unreadable)
        }
    }

    /// Who and where a device is that updates itself, and what it keeps.
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

    /// Who and where the device is.
    private static func device(
        _ store: String?, _ shell: ShellOptions, _ settings: Settings
    ) throws -> Launcher.Device {
        let version = try settings.required("shell-version", shell.shellVersion)
        var device = Launcher.Device(
            store: try settings.required("store", store),
            shell: try settings.parsed("shell-version", version) { try SemanticVersion(parsingArgument: $0) },
            seed: try settings.optional("seed", shell.seed),
            verifies: try settings.isOn("verify-on-launch", shell.verifyOnLaunch),
            sources: try SourceOrder.chosen(shell.sources, settings))
        device.layout = MeteorBundles(platform: try platform(shell.platform, settings))
        return device
    }

    /// Refuses a path at which there is no store.
    static func requireStore(_ store: String) throws {
        if try !Inventory.exists(at: store) { throw noStore(at: store) }
    }

    private static func noStore(at path: String) -> UpdateFailure {
        UpdateFailure(.configInvalid, subject: path, "There is no store at \(path): check the path.")
    }

    /// The picture of a store; says so on stderr where there is none yet, since the path may be wrong.
    static func inventory(_ store: String) throws -> Inventory {
        let folder = File.exists(store) ? try Directory.open(store) : nil
        if let folder { try StoreMark.require(in: folder) }
        // A device may be locked before anything else.
        let isEmpty = try folder?.list().isEmpty ?? true
        if isEmpty { Output.say("clientctl: there is no store at \(store) yet") }
        return try Inventory.read(at: store) { Output.say("clientctl: \($0.message)") }
    }

    /// The seed is what runs when nothing else can, so it had better be there before anything is installed over it.
    static func requireSeed(_ options: UpdateOptions, _ settings: Settings) throws {
        guard let path = try settings.optional("seed", options.seed) else { return }
        guard case .file? = try Directory.open(path).kind(of: "index.html") else {
            throw UpdateFailure(
                .configInvalid, subject: path, "The seed \(path) has no index.html. Name the folder that contains it."
            )
        }
    }
}

/// Fetches as `fetcher` does. A relay has a flag of its own for the token that its upstream requires.
private struct UpstreamFetcher: Fetcher {
    let fetcher: any Fetcher

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout sending Sink
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
