package import BundleCore
package import BundleServe
package import BundleValues
import ClientShell

/// Shows the seed from its own folder while the disk takes no store, and there is no shell: nothing is remembered, and nothing else can
/// be shown.
package final class SeedHost: PageHost {
    private let bridge = LoopbackBridge()
    private let launched: Launched
    private let page: Page
    private let reason: UpdateFailure

    /// For a launch without a store, for this reason.
    package init(_ launched: Launched, because reason: UpdateFailure) throws {
        (self.launched, self.reason) = (launched, reason)
        page = Page(
            id: String(try LaunchToken.random().text.prefix(32)), token: launched.token.text,
            site: try LoopbackBridge.open(launched.prepared.client).site)
        bridge.update(ShellStatus(token: launched.token, current: launched.name))
    }

    /// The seed's page, the same for every load.
    package func page(isBrowser: Bool) async throws -> Page { page }

    /// The seed's files.
    package func site(ofPage page: String?) -> Site { self.page.site }

    /// The seed's files again.
    package func site(named name: String) async throws -> Site? {
        name == launched.name.description ? page.site : nil
    }

    /// The seed.
    package func clients() async throws -> [String] { [launched.name.description] }

    /// Nothing, until the server ends, and the page finds the shell in its place.
    package func events(token: String) async throws -> AsyncStream<PageEvent> {
        guard let events = bridge.listen(token: token) else { throw LoopbackHost.staleLaunch }
        return events
    }

    /// A page may say how it is doing, and that it has started.
    package func call(_ method: String, token: String, body: JSONObject) async throws -> JSONObject {
        guard token == page.token else { throw LoopbackHost.staleLaunch }
        switch method {
        case "startupDidComplete": return [:]
        case "getCurrentVersion": return ["version": .string(launched.name.shortDescription)]
        case "isUpdateAvailable": return ["available": .bool(false)]
        case "checkForUpdates":
            return [
                "outcome": .string("failed"), "code": .string(reason.code.rawValue), "message": .string(reason.message),
            ]
        default: return try LoopbackHost.answer(method)
        }
    }
}
