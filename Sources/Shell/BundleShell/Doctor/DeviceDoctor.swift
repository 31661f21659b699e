import BundleFormats
package import BundleCore
package import BundleFetch
package import BundleValues
import BundleDisk
import CLibrary

/// Measures a device for `DoctorRule` in a bounded time. It changes nothing and waits for no lock.
package struct DeviceDoctor: Sendable {
    /// A feed or a server, and its source for updates.
    package struct ConfiguredFeed: Sendable {
        private let url: FetchURL
        private let isChannel: Bool
        private let proxy: ProxyChoice?
        private let source: Result<any DeviceSource, UpdateFailure>

        /// Creates a feed. `source` is a failure if this device cannot open it.
        package init(
            url: FetchURL, isChannel: Bool, proxy: ProxyChoice?, source: Result<any DeviceSource, UpdateFailure>
        ) {
            (self.url, self.isChannel, self.proxy, self.source) = (url, isChannel, proxy, source)
        }

        fileprivate func read(_ options: FetchOptions) async -> DoctorReading.FeedReading {
            async let end = url.isFile ? nil : FeedProbe.run(url, options: options, limit: DeviceDoctor.probeLimit)
            async let check = check()
            return DoctorReading.FeedReading(
                url: url, isChannel: isChannel, proxy: proxy, end: await end, check: await check)
        }

        private func check() async -> DoctorReading.CheckReading {
            switch source {
            case .failure(let failure): return .refused(failure)
            case .success(let source):
                return await DeviceDoctor.within(DeviceDoctor.checkLimit) {
                    do {
                        let findings = try await source.check(explaining: false)
                        let offer = DoctorReading.OfferReading(findings.offered, findings.decision.verdict)
                        return Self.refusal(of: findings).map { .refused($0) } ?? .verified(findings.memory, offer)
                    } catch {
                        return .refused(UpdateFailure(error))
                    }
                } ?? .late
            }
        }

        /// Returns the reason why a verified release can never be for this device; nil if it may be.
        private static func refusal(of findings: CheckFindings) -> UpdateFailure? {
            switch findings.decision.verdict {
            case .wrongApp, .unsuitable: findings.decision.verdict.failure(of: findings.offered)
            default: nil
            }
        }
    }

    /// The shell of the store, and the sessions of the device.
    package struct Shell: Sendable {
        let version: SemanticVersion?
        let hasSeed: Bool
        let hasDeviceId: Bool
        let sessions: any SessionRepository

        /// Creates a shell. `version` is nil if it is unknown. `hasSeed` and `hasDeviceId` state whether the operator
        /// names a seed and an ID.
        package init(
            version: SemanticVersion?, hasSeed: Bool, hasDeviceId: Bool = false, sessions: any SessionRepository
        ) {
            (self.version, self.hasSeed, self.sessions) = (version, hasSeed, sessions)
            self.hasDeviceId = hasDeviceId
        }
    }

    /// Returns the only folder of the store at `path` in which the doctor writes.
    package static func staging(of path: String) -> String { StoreLook.staging(of: path) }

    private static let probeLimit = Duration.seconds(10)
    private static let checkLimit = Duration.seconds(30)
    private static let portLimit = Duration.seconds(5)

    private let store: String
    private let shell: Shell
    private let trust: String?
    private let feeds: [ConfiguredFeed]
    private let port: (number: Int, isFixed: Bool)?
    private let origins: OriginBound?
    private let options: FetchOptions
    private let clock: Timestamp

    /// Creates a doctor. `store` is an absolute path, `trust` the value of --trust, and `port` the port of `serve`,
    /// if it is known. `origins` is the bound of `serve`, if declared origins are examined.
    package init(
        store: String, shell: Shell, trust: String?, feeds: [ConfiguredFeed], port: (number: Int, isFixed: Bool)?,
        origins: OriginBound?, options: FetchOptions, clock: Timestamp
    ) {
        (self.store, self.trust, self.feeds, self.port) = (store, trust, feeds, port)
        (self.origins, self.options, self.clock, self.shell) = (origins, options, clock, shell)
    }

    /// Measures everything.
    package func read() async throws -> DoctorReading {
        let path = store
        let look = try await onThread { StoreLook.at(path) }
        var reading = DoctorReading(clock: clock, store: look, confinement: Confinement.support)
        await readShell(&reading)
        let options = options
        reading.feeds = await withTaskGroup { group in
            for (index, feed) in feeds.enumerated() { group.addTask { (index, await feed.read(options)) } }
            var found: [Int: DoctorReading.FeedReading] = [:]
            for await (index, feed) in group { found[index] = feed }
            return found.sorted { $0.key < $1.key }.map(\.value)
        }
        reading.trust = trust.map { newest($0, reading) }
        let hasMachineId = try MachineIdentity.deviceId() != nil
        let remembered = reading.store.ledger?.feed.deviceIdSource
        reading.deviceIdSource =
            shell.hasDeviceId || remembered == .given ? .given : hasMachineId ? .machine : remembered
        if let port {
            reading.port = DoctorReading.Port(
                number: port.number, isFixed: port.isFixed, holder: await holder(port.number))
        }
        return reading
    }

    /// Reads which clients may be shown, and to which users.
    private func readShell(_ reading: inout DoctorReading) async {
        guard case .usable = reading.store.folder, reading.store.owner == reading.store.user else { return }
        let path = store
        let inventory = try? await onThread { try Inventory.read(at: path) }
        reading.inventory = inventory
        reading.complaints = ComplaintFile(store: path).read()
        reading.shell = shell.version ?? inventory?.ledger.shell
        reading.hasSeed = shell.hasSeed || inventory?.ledger.seed != nil
        reading.screen = ScreenFile(store: path).read()
        if let origins, let inventory,
            let bundle = SelectionRule.select(
                inventory, shell: reading.shell, hasSeed: reading.hasSeed)?.name.version.flatMap(inventory.bundle)
        {
            reading.origins = try? await onThread {
                GrantedOrigins(try InstalledTree.origins(of: bundle, inStoreAt: path), within: origins)
            }
        }
        do {
            reading.session = try await shell.sessions.record().status(at: clock)
        } catch {
            reading.session = .unauthenticated(.unreadable)
        }
    }

    /// Returns the present trust: the pinned keys, or the newest root of the feed and the store.
    private func newest(_ path: String, _ reading: DoctorReading) -> DoctorReading.TrustReading {
        do {
            switch try TrustAnchor.read(at: path) {
            case .keys(let keys): return .keys(keys.keys.count)
            case .root(let pinned):
                let memories = [reading.store.ledger?.feed] + reading.feeds.map { $0.check.memory }
                let documents = memories.compactMap { $0?.trust?.document }
                let roots = [pinned.root] + (try documents.map { try TrustRootFormat.parse($0).claims })
                let newest = roots.max { $0.version < $1.version } ?? pinned.root
                return .root(version: newest.version, expires: newest.expires)
            }
        } catch {
            return .unreadable(UpdateFailure(error).message)
        }
    }

    /// Returns the program that listens on `port`. Only a `clientctl serve` answers with its metrics.
    private func holder(_ port: Int) async -> DoctorReading.Port.Holder {
        switch LoopbackPort.refusal(port) {
        case nil: return .free
        case let error? where error.code != EADDRINUSE: return .refused(error)
        default: break
        }
        let options = options
        let answer = await Self.within(Self.portLimit) {
            guard let url = try? FetchURL(parsing: "http://127.0.0.1:\(port)/__clientctl/v1/metrics"),
                let fetcher = try? DeviceContainer.fetcher(options)
            else { return [UInt8]() }
            return (try? await fetcher.fetchBytes(url, maximumBytes: 1 << 20)) ?? []
        }
        let owner = try? await onThread { try SpawnThread.run { LoopbackPort.owner(of: port) } }
        guard answer?.firstRange(of: "# HELP clientctl_".utf8) != nil else {
            return .other(owner.map { "\(UntrustedName.display($0.name)) (process \($0.process))" })
        }
        guard let owner, let store = owner.store, shellProcess != owner.process else { return .clientctl }
        return .serve(store: UntrustedName.display(store, limit: 200))
    }

    /// The process that shows the clients of the store, which has locked this folder.
    private var shellProcess: Int32? {
        (try? Directory.open(store).directory("serving")).flatMap { try? FileLock.holder(of: $0) }
    }

    /// Returns the result of `work`, which has to end soon after it is cancelled; nil if it takes longer than
    /// `limit`.
    private static func within<Value: Sendable>(
        _ limit: Duration, _ work: @escaping @Sendable () async -> Value
    ) async -> Value? {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await work() }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next().flatMap(\.self)
        }
    }
}
