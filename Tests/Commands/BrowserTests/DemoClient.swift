import BundleTesting

/// A small client that says what it does in the window's session storage, which outlives its pages.
struct DemoClient {
    let version: String
    /// What paints the page.
    var colour = "white"
    /// What its script does after it has noted its version; the pieces of `Scripts` joined.
    var script = ""
    /// Put into the head of the page.
    var head = ""
    /// Other files.
    var more: [String: String] = [:]

    init(_ version: String) { self.version = version }

    /// What scripts of clients do.
    enum Scripts {
        /// Confirms the start.
        static let confirm = "WebAppLocalServer.startupDidComplete(() => { window.confirmed = true });\n"
        /// Notes a new version, and shows it.
        static let update = """
            WebAppLocalServer.onNewVersionReady(version => {
              note('news', typeof version + ' ' + version);
              WebAppLocalServer.switchToPendingVersion();
            });

            """
        /// Notes errors that the server tells of.
        static let errors = "WebAppLocalServer.onError(error => note('errors', error.code));\n"
        /// Reports that nobody sees the page, as a window in the background does.
        static let hide = visibility("hidden")
        /// Reports that it is seen again.
        static let show = visibility("visible")

        static func visibility(_ state: String) -> String {
            """
            Object.defineProperty(document, 'visibilityState', {value: '\(state)', configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));

            """
        }
    }

    /// One that confirms and takes what is new. Where it confirms `atOnce`, that does not depend on how soon its script comes.
    static func good(_ version: String, _ colour: String = "white", atOnce: Bool = false) -> DemoClient {
        var client = DemoClient(version)
        client.colour = colour
        client.head = atOnce ? "<script>\(Scripts.confirm)</script>" : ""
        client.script = Scripts.errors + Scripts.update + (atOnce ? "" : Scripts.confirm)
        return client
    }

    /// One that does what `script` says, out of sight: the time of its trial stands still until a test shows it, which may
    /// look at it first, however long that takes.
    static func unseen(_ version: String, _ script: String, _ colour: String = "white") -> DemoClient {
        var client = doing(version, script, colour)
        client.head = "<script>\(Scripts.hide)</script>"
        return client
    }

    /// One that does what `script` says.
    static func doing(_ version: String, _ script: String, _ colour: String = "white") -> DemoClient {
        var client = DemoClient(version)
        client.colour = colour
        client.script = script
        return client
    }

    var files: [String: [UInt8]] {
        var files = [
            "index.html": """
            <!doctype html><html><head><meta charset=utf-8><title>\(version)</title><link rel=icon href=data:,>
            \(head)</head><body style="background: \(colour); font: 48px sans-serif"><p>version \(version)</p>
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
