package import BundleCore
import BundleDisk
package import BundleServe
package import BundleValues
import ClientShell
package import ShellBoot
import Synchronization

/// Shows the seed from its own folder while the store cannot be had, and there is no shell: nothing is remembered, and no other client
/// can be shown. Where there is no seed, its pages say why.
package final class SeedHost: PageHost {
    /// What is shown, and when it was made ready.
    private struct Shown {
        var launched: Launched
        var generation: Int
    }

    /// What tells a seed that is still being copied from one that is complete, as far as looking can.
    private struct Look: Equatable {
        /// Nil for a file that cannot be had.
        let sizes: [[UInt8]: Int?]
        let page: [UInt8]

        init(at root: OrganizedRoot) throws {
            sizes = root.places.mapValues { try? $0.open().size() }
            page = try root.page()
        }

        /// How often a seed that came late has to be the same, each look half a second after the one before. What it lacks may be on its
        /// way; but a source map that is only named keeps no seed from the screen.
        var times: Int { sizes.values.contains(nil) ? 40 : 5 }
    }

    private let bridge: LoopbackBridge
    private let launch: @Sendable (_ tell: (String) -> Void) throws -> Launched
    private let say: @Sendable (String) -> Void
    private let reason: UpdateFailure
    private let nothing: Page
    /// Nil until there is a seed.
    private let shown = Mutex<Shown?>(nil)
    /// What a seed that came late had when it was looked at last, and how often it had the same; nil for one that did not.
    private let seen = Mutex<(look: Look?, times: Int)?>(nil)

    /// For pages behind `bridge`. There is no store for this reason; `launch` launches the seed without one, and what it tells is said
    /// when the seed is shown.
    package init(
        _ bridge: LoopbackBridge, because reason: UpdateFailure, say: @escaping @Sendable (String) -> Void,
        launch: @escaping @Sendable (_ tell: (String) -> Void) throws -> Launched
    ) throws {
        (self.bridge, self.reason, self.say, self.launch) = (bridge, reason, say, launch)
        nothing = try StatePage.starting.page()
    }

    /// The seed; nil where there is none yet.
    package var seed: ClientName? { shown.withLock { $0?.launched.name } }

    /// Makes the seed ready, which may come later than its shell.
    func prepare() -> LaunchReadiness {
        if seed != nil { return .ready }
        do {
            var told: [String] = []
            let launched = try launch { told.append($0) }
            if try !isComplete(launched.prepared.client.root) { return .failed(reason) }
            told.forEach(say)
            try bridge.setServerBasePath(launched.prepared.client)
            // Its token is one that no page has.
            shown.withLock { $0 = Shown(launched: launched, generation: -1) }
            return .ready
        } catch {
            seen.withLock { $0 = (nil, 0) }
            return .failed(UpdateFailure(error))
        }
    }

    /// Whether nobody copies the seed any more. One that was there at the first look is not looked through.
    private func isComplete(_ root: OrganizedRoot) throws -> Bool {
        guard let before = seen.withLock(\.self) else { return true }
        let look = try Look(at: root)
        let times = before.look == look ? before.times + 1 : 1
        seen.withLock { $0 = (look, times) }
        return times >= look.times
    }

    /// The launch of what is shown now: pages of before a lock, or of a session that ended, are not those of it.
    private func current(_ generation: Int) throws -> Launched? {
        try shown.withLock { shown in
            guard let before = shown else { return nil }
            if before.generation >= generation { return before.launched }
            let launched = try before.launched.renewed()
            shown = Shown(launched: launched, generation: generation)
            bridge.update(ShellStatus(token: launched.token, current: launched.name))
            return launched
        }
    }

    /// Counts up when the device is locked or unlocked, and when a session ends.
    package var generation: Int { bridge.withScreen { $0.generation } }

    /// The session that ended last.
    package var leaving: Leaving? { bridge.withScreen { $0.leaving } }

    /// The seed's page, or the one that stands in its place.
    package func page(isBrowser: Bool) async throws -> Page {
        while true {
            let (ownPage, generation) = bridge.withScreen { ($0.ownPage, $0.generation) }
            guard ownPage == nil, let launched = try current(generation) else { return ownPage ?? nothing }
            if let page = try bridge.page(of: launched, in: generation) { return page }
        }
    }

    /// The seed's files, as far as they may be shown.
    package func site(ofPage page: String?) -> Site { bridge.withScreen { $0.site(ofPage: page) } ?? nothing.site }

    /// The seed's files again.
    package func site(named name: String) async throws -> Site? {
        guard let seed, seed.description == name else { return nil }
        return bridge.withScreen { $0.mayShow(seed) ? $0.next?.site : nil }
    }

    /// The seed, as far as it may be shown.
    package func clients() async throws -> [String] {
        guard let seed, bridge.withScreen({ $0.mayShow(seed) }) else { return [] }
        return [seed.description]
    }

    /// That there is something else to load, at the latest when the server ends and the page finds the shell in its place.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        _ = try current(generation)
        guard let events = bridge.listen(token: token) else { throw bridge.withScreen(\.staleLaunch) }
        return events
    }

    /// A page may say how it is doing, and that it has started.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        let launched = try current(generation)
        let (isCurrent, isOwnPage) = bridge.withScreen { ($0.isCurrent(token), $0.ownPage != nil) }
        guard isCurrent else { throw bridge.withScreen(\.staleLaunch) }
        switch method {
        case _ where isOwnPage: return try LoopbackHost.answer(method)
        case "startupDidComplete": return [:]
        case "getCurrentVersion": return ["version": .string(orNull: launched?.name.shortDescription)]
        case "isUpdateAvailable": return ["available": .bool(false)]
        case "checkForUpdates":
            return [
                "outcome": .string("failed"), "code": .string(reason.code.rawValue), "message": .string(reason.message),
            ]
        default: return try LoopbackHost.answer(method)
        }
    }
}

/// Makes nothing ready: whoever looks at the screen sees the seed of a `SeedHost`, or why there is none.
package struct SeedLaunch: PrepareLaunchUseCase {
    private let host: SeedHost
    private let noteEnded: @Sendable () async -> Void

    /// For the seed of `host`. `noteEnded` tells which session was the last that ended, to whoever clears away what it left.
    package init(_ host: SeedHost, noteEnded: @escaping @Sendable () async -> Void) {
        self.host = host
        self.noteEnded = noteEnded
    }

    /// The same for every session.
    package func execute(for session: SessionStatus) async -> LaunchReadiness {
        await noteEnded()
        return host.prepare()
    }
}
