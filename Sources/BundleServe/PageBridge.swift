import BundleCore

extension ServerConfiguration.Bridge {
    /// The page's side of this server: the surface of the Capacitor plugin, carried over calls and events, and the shim.
    ///
    /// The page has the shim of its own; but a policy in the page's head may forbid that one, and stands behind this script.
    public static func page() throws -> ServerConfiguration.Bridge {
        let script = PackageResources.page_bridge_js + ShimInjector.shim
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
