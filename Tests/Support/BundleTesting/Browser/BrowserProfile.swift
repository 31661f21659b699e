import BundleValues

/// Cookies, storage and a cache that pages share; gone with the last of them.
final class BrowserProfile: Sendable {
    let name: String
    private let wire: BrowserWire

    init(_ wire: BrowserWire, within limit: Duration) throws {
        self.wire = wire
        name = try wire.call("Target.createBrowserContext", within: limit).text("browserContextId")
    }

    deinit { wire.send("Target.disposeBrowserContext", ["browserContextId": .string(name)]) }
}
