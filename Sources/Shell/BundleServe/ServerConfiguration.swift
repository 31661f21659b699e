import BundleCore
package import BundleFormats
package import BundleValues

/// The settings of a page server.
package struct ServerConfiguration: Sendable {
    /// The script that the host inserts into its page.
    package struct Bridge: Sendable {
        /// The script, without `</script` in it.
        package let script: [UInt8]
        /// Its source expression of Content Security Policy: `'sha256-…'` of exactly these bytes.
        package let scriptSource: String

        /// Creates a script and its source expression.
        package init(script: [UInt8], scriptSource: String) {
            self.script = script
            self.scriptSource = scriptSource
        }
    }

    /// The paths without a file that receive the index page.
    package enum Fallback: Sendable {
        /// Addresses inside an application, which a user navigates to. Never a script, a style sheet or an image,
        /// because the page would use the index page instead of the missing file.
        case navigation
        /// All paths except `/favicon.ico` and those below `/local-filesystem`, for every request, as in Cordova's
        /// server.
        case everything
    }

    /// The port.
    package var port: PortChoice
    /// The script of the page.
    package var bridge: Bridge
    /// Extra sources by directive of Content Security Policy, such as `["https://api.example.com"]` for
    /// `"connect-src"` or `["'unsafe-eval'"]` for `"script-src"`. Each is one source expression.
    package var extraSources: [String: [String]] = [:]
    /// The device features and the isolation of pages.
    package var policies = PagePolicies()
    /// Its log receives messages for operators about pages.
    package var environment = Environment()
    /// The interval between heartbeats of visible pages; nil disables them.
    package var heartbeat: Duration?
    /// The time without input after which a used page returns to the start page; nil disables that.
    package var idleReset: Duration?
    /// The paths without a file that receive the index page.
    package var fallback = Fallback.navigation
    /// Returns the response of `/__clientctl/v1/metrics`, in the text format of Prometheus 0.0.4; nil disables the
    /// path.
    package var metrics: (@Sendable () async -> String)?
    /// Returns the response of `/__clientctl/v1/kiosk` to a query; nil disables the path.
    package var kiosk: (@Sendable (Substring) -> JSONObject)?
    /// Takes a picture of the screen, which a POST to `/__clientctl/v1/picture` brings with the token of the order. Returns whether it was
    /// ordered; nil disables the path.
    package var picture: (@Sendable (_ picture: [UInt8], _ token: String) -> Bool)?
    /// Whether pages open WebSockets. Otherwise they send requests.
    package var opensSockets = false
    package var limits = ServerLimits()

    /// Creates a configuration with the strict defaults.
    package init(port: PortChoice, bridge: Bridge) {
        self.port = port
        self.bridge = bridge
    }
}

/// The limits of one server.
package struct ServerLimits: Sendable {
    /// The number of connections, without event streams. A further connection replaces the one that has waited
    /// longest for a request, or has not read its response for the longest time. If there is none, it waits in the
    /// kernel's queue.
    package var connections = 64
    /// The number of event streams. A further stream replaces the oldest one.
    package var streams = 16
    /// The number of WebSockets. A further one replaces the oldest.
    package var sockets = 64
    /// The size of the bodies of all present requests, in bytes.
    package var bodies = 4 << 20
    /// The time after which an unfinished body or an unread response may be closed in favor of another connection.
    package var slowBody = Duration.seconds(1)
    /// The time for the head of a request, from its first byte, and again for its body.
    package var request = Duration.seconds(10)
    /// The time between requests.
    package var idle = Duration.seconds(30)
    /// The time without progress in sending.
    package var stall = Duration.seconds(30)
    /// The time between heartbeats in an event stream.
    package var heartbeat = Duration.seconds(15)
    /// The time in which a client has to read the last response and close the connection.
    package var closing = Duration.seconds(2)

    /// Creates the recommended limits.
    package init() {}
}

/// The name of the platform that pages get from Capacitor, such as `electron`.
package struct CapacitorPlatform: Sendable, Equatable {
    let name: String

    /// Creates a platform. Returns nil unless `name` has 1 to 32 lower-case letters, digits and hyphens, the first a letter.
    package init?(_ name: String) {
        guard name.wholeMatch(of: /[a-z][a-z0-9-]{0,31}/) != nil else { return nil }
        self.name = name
    }
}

extension ServerConfiguration.Bridge {
    /// The interface of the Capacitor plugin over calls and events: the modules in `PageBridge`, joined in one function so their
    /// names are not global. A page that already has the plugin keeps it.
    package static let plugin: [UInt8] = {
        let begin = """
            (function () { 'use strict'; if (window.Capacitor && window.Capacitor.Plugins \
            && window.Capacitor.Plugins.CapacitorMeteorWebApp) { return; }

            """
        let modules = [
            PackageResources.page_calls_js, PackageResources.page_socket_js, PackageResources.page_loading_js,
            PackageResources.page_events_js,
            PackageResources.page_errors_js, PackageResources.page_visibility_js, PackageResources.page_look_js,
            PackageResources.page_plugin_js, PackageResources.page_capacitor_js,
        ]
        return ShimInjector.onOneLine(Array(begin.utf8) + modules.joined() + Array("}());\n".utf8))
    }()

    /// Returns the bridge of a page: the plugin, and `WebAppLocalServer` on top of it. The script precedes any policy in the page,
    /// which could block the shim further down, and has one line, so line numbers of the page are unchanged. With `platform`,
    /// Capacitor's `getPlatform()` returns that name.
    package static func page(platform: CapacitorPlatform? = nil) throws -> ServerConfiguration.Bridge {
        let before = platform.map { "window.CapacitorCustomPlatform = { name: '\($0.name)', plugins: {} }; " } ?? ""
        let script = Array(before.utf8) + plugin + [UInt8(ascii: " ")] + ShimInjector.shim
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
