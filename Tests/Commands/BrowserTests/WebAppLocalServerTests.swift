import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

/// The functions that Meteor's code calls, with a plugin that records its calls.
@Suite(.ownThread, .needsBrowser) struct WebAppLocalServerTests {
    let browser: Browser

    init() throws { browser = try Browser.forAllTests() }

    /// A plugin whose methods run the functions in `answers` and record their arguments in `calls`.
    private static let plugin = """
        <script>
        var calls = [], answers = {}, listeners = [];
        function note(name) {
          return function () {
            calls.push([name].concat([].slice.call(arguments).filter(a => typeof a !== 'function')));
            if (name === 'addListener') listeners.push({name: arguments[0], callback: arguments[1]});
            return answers[name] ? answers[name]() : Promise.resolve({});
          };
        }
        function makePlugin() {
          var plugin = {};
          ['startupDidComplete', 'checkForUpdates', 'addListener', 'reload'].forEach(n => { plugin[n] = note(n); });
          return plugin;
        }
        function emit(name, event) { listeners.filter(l => l.name === name).forEach(l => l.callback(event)); }
        </script>
        """

    private static let capacitor =
        "<script>var Capacitor = {Plugins: {CapacitorMeteorWebApp: makePlugin()}}</script>"

    private func open(_ before: String, _ after: String = "") throws -> BrowserPage {
        let server = try LoopbackServer([
            "/": .html(Self.plugin + before + "<script src=/shim.js></script>" + after),
            "/shim.js": .shim,
        ])
        return try browser.open(server.root + "/")
    }

    private func value(_ page: BrowserPage, _ expression: String) throws -> String {
        try page.evaluate("Promise.resolve(\(expression)).then(JSON.stringify)").stringValue ?? "undefined"
    }

    @Test func `WebAppLocalServer has every function that Meteor calls`() throws {
        let page = try open(Self.capacitor)
        #expect(
            try value(
                page, "Object.keys(WebAppLocalServer).filter(k => typeof WebAppLocalServer[k] === 'function').sort()")
                == #"["busy","checkForUpdates","localFileSystemUrl","onError","onNewVersionReady","startupDidComplete","#
                + #""startupDidFail","switchToPendingVersion"]"#)
        #expect(page.console == [])
    }

    @Test(arguments: [
        ("startupDidComplete", "startupDidComplete"), ("checkForUpdates", "checkForUpdates"),
        ("switchToPendingVersion", "reload"),
    ])
    func `WebAppLocalServer calls back without arguments after the plugin resolves`(function: String, method: String)
        throws
    {
        let page = try open(Self.capacitor)
        try page.evaluate("answers.\(method) = () => new Promise(done => { window.finish = done }); null")
        try page.evaluate("WebAppLocalServer.\(function)(function () { window.seen = [].slice.call(arguments) })")
        #expect(try value(page, "calls") == "[[\"\(method)\"]]")
        #expect(try value(page, "window.seen || 'nothing'") == "\"nothing\"")
        try page.evaluate("finish({some: 'thing'})")
        try page.wait(until: "window.seen")
        #expect(try value(page, "seen") == "[]")
        try page.evaluate("WebAppLocalServer.\(function)()")
        #expect(page.console == [])
    }

    @Test(
        arguments: ["startupDidComplete", "checkForUpdates"],
        ["Promise.reject(new Error('no way'))", "{ throw new Error('no way') }"])
    func `WebAppLocalServer logs an error of the plugin and does not call back`(function: String, answer: String) throws
    {
        let page = try open(Self.capacitor)
        try page.evaluate("answers.\(function) = () => \(answer); null")
        try page.evaluate("WebAppLocalServer.\(function)(function () { window.seen = true }); null")
        try page.wait(for: "the console has the error") { !$0.console.isEmpty }
        #expect(page.console.map(\.origin) == [.console])
        #expect(page.console.map(\.level) == ["error"])
        #expect(page.console[0].text.contains("no way"))
        #expect(try value(page, "window.seen || 'nothing'") == "\"nothing\"")
    }

    @Test(arguments: ["Promise.reject(new Error('nothing pending'))", "{ throw new Error('nothing pending') }"])
    func `switchToPendingVersion passes an error to its second function`(answer: String) throws {
        let page = try open(Self.capacitor)
        try page.evaluate("answers.reload = () => \(answer); null")
        try page.evaluate(
            "WebAppLocalServer.switchToPendingVersion(() => { window.seen = 'done' }, error => { window.seen = error })"
        )
        try page.wait(until: "window.seen")
        #expect(try value(page, "[seen instanceof Error, seen.message]") == #"[true,"nothing pending"]"#)
        #expect(page.console == [])
        try page.evaluate("WebAppLocalServer.switchToPendingVersion(); null")
        try page.wait(for: "the console has the error") { $0.console.contains { $0.level == "error" } }
        #expect(page.console.allSatisfy { $0.origin == .console })
    }

    @Test func `onNewVersionReady passes the version to every registered function`() throws {
        let page = try open(Self.capacitor, "<script>var seen = []</script>")
        try page.evaluate("WebAppLocalServer.onNewVersionReady(v => seen.push(['first', v]))")
        try page.evaluate("WebAppLocalServer.onNewVersionReady(v => seen.push(['second', v]))")
        try page.evaluate("emit('updateAvailable', {version: '1.2.3'})")
        #expect(try value(page, "seen") == #"[["first","1.2.3"],["second","1.2.3"]]"#)
        #expect(try value(page, "calls") == #"[["addListener","updateAvailable"],["addListener","updateAvailable"]]"#)
    }

    @Test func `onError passes an Error with its code`() throws {
        let page = try open(Self.capacitor, "<script>var seen = []</script>")
        try page.evaluate("WebAppLocalServer.onError(e => seen.push([e instanceof Error, e.message, e.code]))")
        try page.evaluate("emit('error', {message: 'disk full', code: 'DOWNLOAD_FAILED'})")
        #expect(try value(page, "seen") == #"[[true,"disk full","DOWNLOAD_FAILED"]]"#)
    }

    @Test func `localFileSystemUrl throws`() throws {
        let page = try open(Self.capacitor)
        let error = #expect(throws: BrowserError.self) {
            try page.evaluate("WebAppLocalServer.localFileSystemUrl('file:///a')")
        }
        #expect("\(String(describing: error))".contains("localFileSystemUrl"))
    }

    @Test(arguments: ["var Capacitor = {}", "var Capacitor = {Plugins: {}}"])
    func `WebAppLocalServer warns without the plugin and uses one that is added later`(capacitor: String) throws {
        let page = try open("<script>\(capacitor)</script>")
        for function in [
            "startupDidComplete", "checkForUpdates", "onNewVersionReady", "switchToPendingVersion", "onError",
        ] {
            try page.evaluate("WebAppLocalServer.\(function)(function () { window.seen = true })")
        }
        try page.wait(for: "five warnings") { $0.console.count >= 5 }
        #expect(page.console.map(\.level) == Array(repeating: "warning", count: 5))
        #expect(page.console.allSatisfy { $0.text.contains("CapacitorMeteorWebApp") })
        #expect(try value(page, "window.seen || 'nothing'") == "\"nothing\"")
        try page.evaluate("Capacitor.Plugins = {CapacitorMeteorWebApp: makePlugin()}; null")
        try page.evaluate("WebAppLocalServer.checkForUpdates()")
        #expect(try value(page, "calls") == #"[["checkForUpdates"]]"#)
    }

    @Test func `WebAppLocalServer is created at deviceready with a late Capacitor`() throws {
        let page = try open("")
        #expect(try value(page, "typeof window.WebAppLocalServer") == "\"undefined\"")
        try page.evaluate("document.dispatchEvent(new Event('deviceready'))")
        #expect(try value(page, "typeof window.WebAppLocalServer") == "\"undefined\"")
        try page.evaluate("window.Capacitor = {Plugins: {CapacitorMeteorWebApp: makePlugin()}}; null")
        #expect(try value(page, "typeof window.WebAppLocalServer") == "\"undefined\"")
        try page.evaluate("document.dispatchEvent(new Event('deviceready'))")
        #expect(try value(page, "typeof window.WebAppLocalServer") == "\"object\"")
        try page.evaluate("window.mine = WebAppLocalServer; document.dispatchEvent(new Event('deviceready'))")
        #expect(try value(page, "mine === WebAppLocalServer") == "true")
        #expect(page.console == [])
    }

    @Test func `an existing WebAppLocalServer stays unchanged`() throws {
        let page = try open(Self.capacitor + "<script>var WebAppLocalServer = {mine: 1}</script>")
        #expect(try value(page, "WebAppLocalServer") == #"{"mine":1}"#)
        let late = try open("")
        try late.evaluate("window.Capacitor = {}; window.WebAppLocalServer = {mine: 2}; null")
        try late.evaluate("document.dispatchEvent(new Event('deviceready'))")
        #expect(try value(late, "WebAppLocalServer") == #"{"mine":2}"#)
    }
}
