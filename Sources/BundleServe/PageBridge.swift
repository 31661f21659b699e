import BundleCore

extension ServerConfiguration.Bridge {
    /// The page's side of this server: the surface of the Capacitor plugin, carried over calls and events, and
    /// `WebAppLocalServer` on top of it. It stands before any policy that the page states itself, which could forbid the shim
    /// further down in the page.
    public static func page() throws -> ServerConfiguration.Bridge {
        let script = PackageResources.page_bridge_js + ShimInjector.shim
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
