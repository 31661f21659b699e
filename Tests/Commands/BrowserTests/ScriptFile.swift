import BundleTesting
import Glibc

/// A script of the product from the source tree.
enum ScriptFile: String {
    case shim = "Sources/Device/BundleCore/Serving/web-app-local-server.js"
    case bridge = "Sources/Shell/BundleServe/page-bridge.js"

    func route() throws -> Route {
        let descriptor = open("\(Checkout.root)/\(rawValue)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Missing(path: rawValue) }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        bytes.removeLast(bytes.count - max(0, read(descriptor, &bytes, bytes.count)))
        return Route(bytes).with { $0.headers = [("Content-Type", "text/javascript; charset=utf-8")] }
    }

    struct Missing: Error {
        let path: String
    }
}
