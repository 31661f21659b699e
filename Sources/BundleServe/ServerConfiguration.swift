import BundleCore

/// How a server is run.
public struct ServerConfiguration: Sendable {
    /// The script that the host puts into its own page.
    public struct Bridge: Sendable {
        /// The script, without `</script` in it.
        public let script: [UInt8]
        /// Its source expression in Content Security Policy: `'sha256-…'` over exactly these bytes.
        public let scriptSource: String

        /// States a script and its source expression.
        public init(script: [UInt8], scriptSource: String) {
            self.script = script
            self.scriptSource = scriptSource
        }
    }

    /// Which paths without a file get the index page.
    public enum Fallback: Sendable {
        /// Those that somebody goes to, as addresses inside an application: never a script, a style sheet or an image, which
        /// the page would take for the missing one.
        case navigation
        /// All but `/favicon.ico` and what is below `/local-filesystem`, whoever asks: as Cordova's server does.
        case everything
    }

    /// Where to listen.
    public var port: PortChoice
    /// The script of the page.
    public var bridge: Bridge
    /// Sources that pages may use beside the strict defaults, by directive of Content Security Policy: `"connect-src"` to
    /// `["https://api.example.com"]`, `"script-src"` to `["'unsafe-eval'"]`. Each is one source expression.
    public var extraSources: [String: [String]] = [:]
    /// The `Permissions-Policy` of every answer: visible ASCII and spaces.
    public var permissionsPolicy = "camera=(), microphone=(), geolocation=()"
    /// What paths without a file get.
    public var fallback = Fallback.navigation
    /// What `/__clientctl/v1/metrics` answers, in the text format of Prometheus 0.0.4; nil is that there is no such path.
    public var metrics: (@Sendable () async -> String)?
    /// How much and how long.
    public var limits = ServerLimits()

    /// A server with the strict defaults.
    public init(port: PortChoice, bridge: Bridge) {
        self.port = port
        self.bridge = bridge
    }
}

/// What one server gives its clients at most.
public struct ServerLimits: Sendable {
    /// Connections at once; further ones wait in the kernel's queue until one ends.
    public var connections = 64
    /// For the whole head of a request, from its first byte, and for its body again.
    public var request = Duration.seconds(10)
    /// Between requests.
    public var idle = Duration.seconds(30)
    /// Without any progress in sending.
    public var stall = Duration.seconds(30)
    /// Between signs of life in a stream of events.
    public var heartbeat = Duration.seconds(15)
    /// For a client to read the last answer and close, after which it is cut off.
    public var farewell = Duration.seconds(2)

    /// The limits as they are recommended.
    public init() {}
}

extension ServerConfiguration.Bridge {
    /// The page's side of this server: the surface of the Capacitor plugin, carried over calls and events, and
    /// `WebAppLocalServer` on top of it. It stands before any policy that the page states itself, which could forbid the shim
    /// further down in the page.
    public static func page() throws -> ServerConfiguration.Bridge {
        let script = PackageResources.page_bridge_js + ShimInjector.shim
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
