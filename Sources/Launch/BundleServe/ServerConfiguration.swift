import BundleCore
package import BundleValues

/// How a server is run.
package struct ServerConfiguration: Sendable {
    /// The script that the host puts into its own page.
    package struct Bridge: Sendable {
        /// The script, without `</script` in it.
        package let script: [UInt8]
        /// Its source expression in Content Security Policy: `'sha256-…'` over exactly these bytes.
        package let scriptSource: String

        /// States a script and its source expression.
        package init(script: [UInt8], scriptSource: String) {
            self.script = script
            self.scriptSource = scriptSource
        }
    }

    /// Which paths without a file get the index page.
    package enum Fallback: Sendable {
        /// Those that somebody goes to, as addresses inside an application: never a script, a style sheet or an image, which
        /// the page would take for the missing one.
        case navigation
        /// All but `/favicon.ico` and what is below `/local-filesystem`, whoever asks: as Cordova's server does.
        case everything
    }

    /// Where to listen.
    package var port: PortChoice
    /// The script of the page.
    package var bridge: Bridge
    /// Sources that pages may use beside the strict defaults, by directive of Content Security Policy: `"connect-src"` to
    /// `["https://api.example.com"]`, `"script-src"` to `["'unsafe-eval'"]`. Each is one source expression.
    package var extraSources: [String: [String]] = [:]
    /// What pages may ask of the device, and how far they are from others.
    package var policies = PagePolicies()
    /// Told what people should know of a page that is shown.
    package var say: @Sendable (String) -> Void = { _ in }
    /// How often pages that are seen say that they live; nil is never.
    package var heartbeat: Duration?
    /// What paths without a file get.
    package var fallback = Fallback.navigation
    /// What `/__clientctl/v1/metrics` answers, in the text format of Prometheus 0.0.4; nil is that there is no such path.
    package var metrics: (@Sendable () async -> String)?
    /// What `/__clientctl/v1/kiosk` answers; nil is that there is no such path.
    package var kiosk: (@Sendable () -> JSONObject)?
    /// How much and how long.
    package var limits = ServerLimits()

    /// A server with the strict defaults.
    package init(port: PortChoice, bridge: Bridge) {
        self.port = port
        self.bridge = bridge
    }
}

/// What one server gives its clients at most.
package struct ServerLimits: Sendable {
    /// Connections at once, without those of event streams. For a further one, the connection is closed that has waited for a request the
    /// longest, or has not read its response the longest. Where there is none, it waits in the kernel's queue.
    package var connections = 64
    /// Event streams at once; for a further one, the oldest ends.
    package var streams = 16
    /// For the bodies of all requests under way, in bytes.
    package var bodies = 4 << 20
    /// A body that takes longer gives its room to others where there is no more, and so does a response that is not read for as long.
    package var slowBody = Duration.seconds(1)
    /// For the whole head of a request, from its first byte, and for its body again.
    package var request = Duration.seconds(10)
    /// Between requests.
    package var idle = Duration.seconds(30)
    /// Without any progress in sending.
    package var stall = Duration.seconds(30)
    /// Between signs of life in a stream of events.
    package var heartbeat = Duration.seconds(15)
    /// For a client to read the last answer and close, after which it is cut off.
    package var farewell = Duration.seconds(2)

    /// The limits as they are recommended.
    package init() {}
}

extension ServerConfiguration.Bridge {
    /// The page's side of this server: the surface of the Capacitor plugin, carried over calls and events, and
    /// `WebAppLocalServer` on top of it. It stands before any policy that the page states itself, which could forbid the shim
    /// further down in the page, and on one line, so that the page's lines keep their numbers.
    package static func page() throws -> ServerConfiguration.Bridge {
        let script = ShimInjector.onOneLine(PackageResources.page_bridge_js) + [UInt8(ascii: " ")] + ShimInjector.shim
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
