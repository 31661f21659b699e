import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting
import Synchronization

/// A device that follows a Meteor server, with a real store, server, downloads and shell.
final class PushedDevice: Sendable {
    let folder: TemporaryFolder
    let server: MeteorServer
    let seed: String?
    private let configure: @Sendable (inout MeteorServerOptions) -> Void
    private let warnings = Mutex<[String]>([])
    private let running = Mutex<(launcher: Launcher, launched: Launched)?>(nil)

    var store: String { folder.file("store") }
    var warningLines: [String] { warnings.withLock { $0 } }

    /// Creates a device whose shell has `seed`, a folder in bundle layout. `versions` are folders in server layout, or
    /// folders of such.
    init(
        _ folder: TemporaryFolder, seed: String?, versions: [String], tags: MeteorServer.EntityTags = .manifestHash,
        rootPath: String = "", configure: @escaping @Sendable (inout MeteorServerOptions) -> Void = { _ in }
    ) throws {
        self.folder = folder
        self.seed = seed
        self.configure = configure
        server = try MeteorServer(versions, tags: tags, rootPath: rootPath)
    }

    /// Creates a device with the fixtures of the Cordova suite (METEOR section 8.2), which serves `version`.
    static func cordova(serving version: CordovaVersion = .version1) throws -> (PushedDevice, CordovaFixtures) {
        let folder = try TemporaryFolder()
        let fixtures = try CordovaFixtures(in: folder.file("fixtures"))
        let device = try PushedDevice(
            folder, seed: fixtures.seed, versions: [fixtures.versions], tags: .contentDigest)
        try device.server.serve(version: version.rawValue)
        return (device, fixtures)
    }

    // MARK: Updates

    func source() throws -> MeteorServerOptions {
        var source = MeteorServerOptions(rootURL: try FetchURL(parsing: server.rootURL), platform: .android)
        configure(&source)
        return source
    }

    func updater(keep: Int = 3) throws -> Updater<MeteorSource> {
        let layout = MeteorBundles(platform: .android)
        let channel = try MeteorSource(
            try source(), seed: try seed.map { try SeedFolder(at: $0, layout: layout) },
            fetcher: CurlFetcher(options: .patient), report: UpdateObserver())
        return Updater(
            source: channel,
            device: .init(store: store, shell: try SemanticVersion(parsing: "1.0.0"), appId: nil, keep: keep),
            environment: Environment(log: { line in self.warnings.withLock { $0.append(line) } }))
    }

    /// Runs an update as `checkForUpdates` does.
    @discardableResult
    func update(keep: Int = 3) async throws -> UpdateOutcome { try await updater(keep: keep).update() }

    /// Returns the failure of an update, or nil if it succeeds.
    func failure() async throws -> UpdateFailure? {
        do {
            try await update()
            return nil
        } catch {
            return UpdateFailure(error)
        }
    }

    /// The number of requests since the last switch of versions, by path and query without the prefix.
    var requests: [String: Int] { server.requestsSinceLastSwitch.multiset }

    // MARK: Launches

    /// Starts the shell again, as after a reboot, and loads the page.
    @discardableResult
    func restart() throws -> Launched {
        running.withLock { $0 = nil }
        return try reload()
    }

    /// Reloads the page, which launches the next client.
    @discardableResult
    func reload() throws -> Launched {
        try running.withLock { running in
            let launcher =
                try running?.launcher
                ?? Launcher(
                    device(),
                    environment: Environment(log: { [weak self] line in self?.warnings.withLock { $0.append(line) } }))
            let launched = try launcher.launch()
            running = (launcher, launched)
            return launched
        }
    }

    /// Ends the shell, so that its client is no longer in use.
    func shutDown() { running.withLock { $0 = nil } }

    private func device() throws -> Launcher.LaunchDevice {
        var device = Launcher.LaunchDevice(
            store: store, shell: try SemanticVersion(parsing: "1.0.0"), seed: seed, verifies: false)
        device.layout = MeteorBundles(platform: .android)
        return device
    }

    /// Calls `startupDidComplete` as the page does.
    func confirm(keep: Int = 3) async throws {
        guard let launched = running.withLock({ $0?.launched }) else { return }
        let verdicts = try Verdicts(store: store, environment: Environment())
        _ = try verdicts.confirm(launched.name, launched.token)
        _ = await verdicts.retain(keep)
    }

    /// Fails the start of a trial.
    func fail(_ cause: StartFailure.Cause = .notConfirmed) throws {
        guard let launched = running.withLock({ $0?.launched }) else { return }
        _ = try Verdicts(store: store, environment: Environment()).fail(
            launched.name, launched.token, StartFailure(cause, detail: "", at: .now))
    }

    // MARK: Inspection

    func inventory() throws -> Inventory { try Inventory.read(at: store) }

    /// Returns the file at a URL path, or nil if there is none.
    func served(_ urlPath: String) throws -> [UInt8]? {
        guard let root = running.withLock({ $0?.launched.prepared.client.root.directory }) else { return nil }
        let path = urlPath == "/" ? "index.html" : String(urlPath.dropFirst())
        return try root.contents(path, maximumBytes: 16 << 20)
    }

    /// Returns the version in the shown page.
    func pageVersion() throws -> String? {
        try served("/").flatMap { try RuntimeConfig.read(page: $0).pageVersion }
    }

    /// Returns the names of the folders below `meteor/`.
    func versionsOnDisk() throws -> [String] { try Directory.open(store).directory("meteor").list().sorted() }
}
