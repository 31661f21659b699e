import BundleCore
import BundleServe
import BundleTesting

extension Route {
    /// The plugin of a page, as `serve` sends it.
    static let bridge = script(ServerConfiguration.Bridge.plugin)
    /// `WebAppLocalServer`, as serving roots contain it.
    static let shim = script(ShimInjector.shim)

    private static func script(_ bytes: [UInt8]) -> Route {
        Route(bytes).with { $0.headers = [("Content-Type", "text/javascript; charset=utf-8")] }
    }
}
