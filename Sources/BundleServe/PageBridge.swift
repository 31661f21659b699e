import BundleCore

extension ServerConfiguration.Bridge {
    /// The page's side of this server: the surface of the Capacitor plugin, carried over calls and events.
    public static func page() throws -> ServerConfiguration.Bridge {
        let script = PackageResources.page_bridge_js
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
