package import BundleCore
package import BundleServe
package import BundleValues
import ClientShell
package import ShellBoot

/// Shows the seed from its own folder while the store cannot be had, and there is no shell: nothing is remembered, and no other client
/// can be shown. Where there is no seed, its pages say why.
package final class SeedHost: PageHost {
    private let bridge: LoopbackBridge
    private let launched: Launched?
    private let reason: UpdateFailure
    private let nothing: Page

    /// For pages behind `bridge`, and the launch of the seed without a store for this reason; nil where there is none.
    package init(_ launched: Launched?, because reason: UpdateFailure, _ bridge: LoopbackBridge) throws {
        (self.launched, self.reason, self.bridge) = (launched, reason, bridge)
        nothing = try StatePage.starting.page()
        guard let launched else { return }
        try bridge.setServerBasePath(launched.prepared.client)
        bridge.update(ShellStatus(token: launched.token, current: launched.name))
    }

    /// What there is to be shown.
    var readiness: LaunchReadiness { launched == nil ? .failed(reason) : .ready }

    /// Counts up when the device is locked or unlocked.
    package var generation: Int { bridge.withScreen { $0.generation } }

    /// The seed's page, or the one that stands in its place.
    package func page(isBrowser: Bool) async throws -> Page {
        while true {
            let (ownPage, generation) = bridge.withScreen { ($0.ownPage, $0.generation) }
            guard let launched, ownPage == nil else { return ownPage ?? nothing }
            if let page = try bridge.page(of: launched, in: generation) { return page }
        }
    }

    /// The seed's files, as far as they may be shown.
    package func site(ofPage page: String?) -> Site { bridge.withScreen { $0.site(ofPage: page) } ?? nothing.site }

    /// The seed's files again.
    package func site(named name: String) async throws -> Site? {
        try await clients().contains(name) ? bridge.withScreen { $0.next?.site } : nil
    }

    /// The seed, as far as it may be shown.
    package func clients() async throws -> [String] {
        guard let name = launched?.name, bridge.withScreen({ $0.mayShow(name) }) else { return [] }
        return [name.description]
    }

    /// That there is something else to load, at the latest when the server ends and the page finds the shell in its place.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        guard let events = bridge.listen(token: token) else { throw LoopbackHost.staleLaunch }
        return events
    }

    /// A page may say how it is doing, and that it has started.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        let (isCurrent, isOwnPage) = bridge.withScreen { ($0.isCurrent(token), $0.ownPage != nil) }
        guard isCurrent else { throw LoopbackHost.staleLaunch }
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
        return host.readiness
    }
}
