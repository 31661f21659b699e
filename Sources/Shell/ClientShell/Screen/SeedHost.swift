package import BundleCore
import BundleDisk
package import BundleServe
package import BundleValues
import Synchronization

/// Shows the seed from its own folder while there is no store and therefore no shell. Nothing is recorded, and no
/// other client can be shown. Without a seed, its pages show the reason.
package final class SeedHost: PageHost {
    /// The launch that is shown, and the generation of its pages.
    private struct ShownSeed {
        var launched: Launched
        var generation: Int
    }

    /// The observed state of a seed, which distinguishes a complete one from one that is still being copied.
    private struct Scan: Equatable {
        /// The sizes of the files; nil for a file that cannot be opened.
        let sizes: [[UInt8]: Int?]
        let page: [UInt8]

        init(at root: OrganizedRoot) throws {
            sizes = root.places.mapValues { try? $0.open().size() }
            page = try root.page()
        }

        /// The number of equal scans that a late seed needs, half a second apart. Missing files may still be copied,
        /// but a source map that is only named must not block the seed forever.
        var times: Int { sizes.values.contains(nil) ? 40 : 5 }
    }

    private let bridge: LoopbackBridge
    private let device: Launcher.LaunchDevice
    private let refusal: any Error
    private let environment: Environment
    private let nothing: Page
    /// Nil until there is a seed.
    private let shown = Mutex<ShownSeed?>(nil)
    /// The last scan of a late seed, and the number of equal ones; nil for a seed that was there at first.
    private let lastScan = Mutex<(scan: Scan?, times: Int)?>(nil)

    /// Creates a host for the pages of the seed of `device` behind `bridge`. `refusal` is why there is no store. The log of
    /// `environment` receives messages about the seed when it is shown.
    package init(
        _ bridge: LoopbackBridge, of device: Launcher.LaunchDevice, because refusal: any Error,
        _ environment: Environment
    ) throws {
        (self.bridge, self.device, self.refusal, self.environment) = (bridge, device, refusal, environment)
        nothing = try StatePage.starting.page(bridge.design)
    }

    /// The seed; nil if there is none yet.
    package var seed: ClientName? { shown.withLock { $0?.launched.name } }

    /// Prepares the seed, which may appear later than its shell. Returns the reason why there is no seed; nil for a prepared one.
    func prepare() -> UpdateFailure? {
        if seed != nil { return nil }
        do {
            var messages: [String] = []
            let launched = try Launcher.launch(device, withoutStore: refusal) { messages.append($0) }
            if try !isComplete(launched.prepared.client.root) { return UpdateFailure(refusal) }
            messages.forEach(environment.log)
            try bridge.setServerBasePath(launched.prepared.client)
            bridge.withScreen { $0.refusedOrigins(of: .embedded) }.forEach { environment.log("the seed: \($0)") }
            // No page has its token.
            shown.withLock { $0 = ShownSeed(launched: launched, generation: -1) }
            return nil
        } catch {
            lastScan.withLock { $0 = (nil, 0) }
            return UpdateFailure(error)
        }
    }

    /// Returns whether the seed is completely copied. A seed that was there at the first call is not scanned.
    private func isComplete(_ root: OrganizedRoot) throws -> Bool {
        guard let before = lastScan.withLock(\.self) else { return true }
        let scan = try Scan(at: root)
        let times = before.scan == scan ? before.times + 1 : 1
        lastScan.withLock { $0 = (scan, times) }
        return times >= scan.times
    }

    /// Returns the present launch. Pages from before a lock or the end of a session belong to an earlier one.
    private func current(_ generation: Int) throws -> Launched? {
        try shown.withLock { shown in
            guard let before = shown else { return nil }
            if before.generation >= generation { return before.launched }
            let launched = try before.launched.renewed()
            shown = ShownSeed(launched: launched, generation: generation)
            bridge.update(ShellStatus(token: launched.token, current: launched.name))
            return launched
        }
    }

    /// Increases when the device is locked or unlocked, and when a session ends.
    package var generation: Int { bridge.withScreen { $0.generation } }

    /// The last session that ended.
    package var leaving: Leaving? { bridge.withScreen { $0.leaving } }

    /// Returns the page of the seed, or the shell's own page.
    package func page(isBrowser: Bool) async throws -> Page {
        while true {
            let (ownPage, generation) = bridge.withScreen { ($0.ownPage, $0.generation) }
            guard ownPage == nil, let launched = try current(generation) else { return ownPage ?? nothing }
            if let page = try bridge.page(of: launched, in: generation) { return page }
        }
    }

    /// Returns the files of the seed, if they may be shown.
    package func site(ofPage page: String?) -> Site { bridge.withScreen { $0.site(ofPage: page) } ?? nothing.site }

    /// Returns the files of the seed, if they may be shown.
    package func site(named name: String) async throws -> Site? {
        guard let seed, seed.description == name else { return nil }
        return bridge.withScreen { $0.mayShow(seed) ? $0.next?.site : nil }
    }

    /// Returns the name of the seed, if it may be shown.
    package func clients() async throws -> [String] {
        guard let seed, bridge.withScreen({ $0.mayShow(seed) }) else { return [] }
        return [seed.description]
    }

    /// Returns the events of a page. The stream ends when the shell replaces this host.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        _ = try current(generation)
        guard let events = bridge.listen(token: token) else { throw bridge.withScreen(\.staleLaunch) }
        return events
    }

    /// Carries out a call of a page: its state, and the confirmation of its start.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        let launched = try current(generation)
        let (isCurrent, isOwnPage) = bridge.withScreen { ($0.isCurrent(token), $0.ownPage != nil) }
        guard isCurrent else { throw bridge.withScreen(\.staleLaunch) }
        switch method {
        case _ where isOwnPage: return try LoopbackHost.answer(method)
        case "startupDidComplete": return [:]
        case "getCurrentVersion": return ["version": .string(orNull: launched?.name.shortDescription)]
        case "isUpdateAvailable": return ["available": .bool(false)]
        case "getStatus": return PageStatus(.empty, shell: nil, running: launched?.name, ready: nil).object
        case "checkForUpdates": return PageChecks.outcome(UpdateFailure(refusal))
        default: return try LoopbackHost.answer(method)
        }
    }
}

/// Prepares the seed of a `SeedHost` for every session.
package struct SeedLaunch: PrepareLaunchUseCase {
    private let host: SeedHost
    private let noteEnded: @Sendable () async -> Void

    /// Creates the use case for `host`. `noteEnded` records the last session that ended, whose data has to be
    /// cleared.
    package init(_ host: SeedHost, noteEnded: @escaping @Sendable () async -> Void) {
        self.host = host
        self.noteEnded = noteEnded
    }

    /// Prepares the seed.
    package func execute(for session: SessionStatus) async -> LaunchState {
        await noteEnded()
        guard let failure = host.prepare() else { return LaunchState(session) }
        return LaunchState(session, without: failure, hasSeed: true, isWaiting: false)
    }
}
