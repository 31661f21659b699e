import BundleValues

/// Cookies, storage and a cache that pages share. They are removed with the last page.
final class BrowserProfile: Sendable {
    let name: String
    private let wire: BrowserWire

    init(_ wire: BrowserWire, within limit: Duration) throws {
        self.wire = wire
        name = try wire.call("Target.createBrowserContext", within: limit).text("browserContextId")
    }

    deinit { wire.send("Target.disposeBrowserContext", ["browserContextId": .string(name)]) }
}
