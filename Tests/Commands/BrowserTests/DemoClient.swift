import BundleTesting

/// A small client that records its actions in the window's session storage, which persists over page loads.
struct DemoClient {
    let version: String
    /// The background color of the page.
    var colour = "white"
    /// The script that runs after the client has recorded its version: pieces of `Scripts`, joined.
    var script = ""
    /// HTML for the head of the page.
    var head = ""
    /// HTML for its body, and the style of that; nil for a line with the version.
    var body: (html: String, style: String)?
    /// Further files.
    var more: [String: String] = [:]

    init(_ version: String) { self.version = version }

    /// Scripts of clients.
    enum Scripts {
        /// Confirms the start.
        static let confirm = "WebAppLocalServer.startupDidComplete(() => { window.confirmed = true });\n"
        /// Records a new version and switches to it.
        static let update = """
            WebAppLocalServer.onNewVersionReady(version => {
              note('news', typeof version + ' ' + version);
              WebAppLocalServer.switchToPendingVersion();
            });

            """
        /// Records the errors that the server sends.
        static let errors = "WebAppLocalServer.onError(error => note('errors', error.code));\n"
        /// Reports the page as hidden, like a window in the background.
        static let hide = visibility("hidden")
        /// Reports the page as visible again.
        static let show = visibility("visible")

        static func visibility(_ state: String) -> String {
            """
            Object.defineProperty(document, 'visibilityState', {value: '\(state)', configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));

            """
        }
    }

    /// Returns a client that confirms its start and switches to new versions. With `atOnce`, it confirms before its
    /// script loads.
    static func good(_ version: String, _ colour: String = "white", atOnce: Bool = false) -> DemoClient {
        var client = DemoClient(version)
        client.colour = colour
        client.head = atOnce ? "<script>\(Scripts.confirm)</script>" : ""
        client.script = Scripts.errors + Scripts.update + (atOnce ? "" : Scripts.confirm)
        return client
    }

    /// Returns a client that runs `script` while hidden. Its trial is suspended until a test shows the page, so the
    /// test can inspect it first without a time limit.
    static func unseen(_ version: String, _ script: String, _ colour: String = "white") -> DemoClient {
        var client = doing(version, script, colour)
        client.head = "<script>\(Scripts.hide)</script>"
        return client
    }

    /// Returns a client that runs `script`.
    static func doing(_ version: String, _ script: String, _ colour: String = "white") -> DemoClient {
        var client = DemoClient(version)
        client.colour = colour
        client.script = script
        return client
    }

    var files: [String: [UInt8]] {
        let style = body?.style ?? "background: \(colour); font: 48px sans-serif"
        var files = [
            "index.html": """
            <!doctype html><html><head><meta charset=utf-8><title>\(version)</title><link rel=icon href=data:,>
            \(head)</head><body style="\(style)">\(body?.html ?? "<p>version \(version)</p>")
            <script src="/app.js"></script></body></html>
            """,
            "app.js": """
            var version = '\(version)';
            function note(name, text) { sessionStorage[name] = (sessionStorage[name] || '') + text + '; '; }
            note('shown', version);
            \(script)
            """,
            "lazy.js": "lazy \(version)",
        ]
        files.merge(more) { $1 }
        return files.mapValues(bytes)
    }
}
