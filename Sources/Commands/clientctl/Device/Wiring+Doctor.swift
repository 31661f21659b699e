import BundleFetch
import BundleCore
import BundleFetch
import BundleServe
import BundleValues
import BundleShell
import ClientServer
import CLibrary
import MeteorSource

extension Wiring {
    /// Returns the doctor of the device with these settings. Without `--shell-version`, the device has the shell that launched last.
    static func doctor(_ given: UpdateOptions, port: String?, origins: OriginBound) throws -> DeviceDoctor {
        let store = try absolute(try FlagValue.required(given.store, of: "store"))
        let known = readableLedger(store)
        var options = given
        options.store = store
        options.shellVersion = given.shellVersion ?? known?.shell?.description
        try requireSeed(options)
        let configuration = try configuration(options, verifies: false)
        let container = try container(
            options, configuration: configuration, keepingSession: true, report: UpdateObserver())
        let network = try options.network.fetching()
        var feeds: [DeviceDoctor.ConfiguredFeed?] = []
        if let source = container.feed?.source {
            var alone = container
            alone.server = nil
            feeds.append(feed(source.url, isChannel: source.isChannel, of: alone, proxy: network.proxy))
        }
        if let server = container.server?.source {
            var alone = container
            alone.feed = nil
            feeds.append(feed(server.rootURL, isChannel: false, of: alone, proxy: network.proxy))
        }
        let named = given.shellVersion
        let shell = DeviceDoctor.Shell(
            version: try named.map { try SemanticVersion(parsingArgument: $0) } ?? known?.shell,
            hasSeed: given.seed != nil, hasDeviceId: given.deviceId != nil, sessions: sessions(store))
        return DeviceDoctor(
            store: store, shell: shell, trust: container.feed?.trust, feeds: feeds.compactMap(\.self),
            port: try self.port(port, options: options, known: known), origins: origins, options: network, clock: .now)
    }

    /// Returns the feed of a device that follows only this feed; nil if `--sources` leaves it out, because the device then ignores it.
    private static func feed(
        _ url: FetchURL, isChannel: Bool, of device: DeviceContainer, proxy: String?
    ) -> DeviceDoctor.ConfiguredFeed? {
        let found: Result<any DeviceSource, UpdateFailure>
        do {
            guard let source = try device.sources().first else { return nil }
            found = .success(source)
        } catch {
            found = .failure(UpdateFailure(error))
        }
        let choice = ProxyChoice.of(url, given: proxy, environment: proxyVariables())
        return DeviceDoctor.ConfiguredFeed(url: url, isChannel: isChannel, proxy: choice, source: found)
    }

    /// Returns a function that examines the device without a network, and returns the codes of the findings that need attention.
    static func localDoctor(
        _ update: UpdateOptions, device: Launcher.LaunchDevice
    ) throws -> @Sendable () async -> [String] {
        let store = try absolute(device.store)
        let shell = DeviceDoctor.Shell(
            version: device.shell, hasSeed: device.seed != nil,
            hasDeviceId: update.deviceId != nil, sessions: sessions(store))
        let trust = update.trust
        // Every check of a kernel without Landlock and every running update would repeat these. The feed is not examined here.
        let ignored: Set<FindingCode> = [.landlock, .leftovers, .source]
        return {
            let doctor = DeviceDoctor(
                store: store, shell: shell, trust: trust, feeds: [], port: nil,
                origins: nil, options: FetchOptions(userAgent: Product.userAgent), clock: .now)
            guard let reading = try? await doctor.read() else { return [] }
            let findings = DoctorRule.findings(reading).filter { $0.severity > .ok && !ignored.contains($0.code) }
            return Set(findings.map(\.code.rawValue)).sorted()
        }
    }

    private static func port(
        _ given: String?, options: UpdateOptions, known: Ledger?
    ) throws -> (number: Int, isFixed: Bool)? {
        if let number = try FlagValue.port(given) { return number == 0 ? nil : (number, true) }
        let application = options.appId ?? known?.meteorFacts?.appId
        return (PortChoice.derived(appId: application).wanted, false)
    }

    /// Returns the store's ledger; nil if it cannot be read, which the check of the store reports.
    private static func readableLedger(_ store: String) -> Ledger? { (try? Inventory.read(at: store))?.ledger }

    private static func proxyVariables() -> [String: String] {
        let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"]
        return names.reduce(into: [:]) { found, name in found[name] = getenv(name).map { String(cString: $0) } }
    }
}

extension FeedAddress {
    var isChannel: Bool {
        if case .channel = self { true } else { false }
    }
}

/// The sessions of a store for a read-only command. A session whose token the server rejects is not ended.
struct KeptSessions: SessionRepository {
    let sessions: any SessionRepository

    func record() async throws -> SessionRecord { try await sessions.record() }

    func change(_ body: @Sendable (inout SessionRecord) -> Void) async throws -> SessionRecord { try await record() }
}
