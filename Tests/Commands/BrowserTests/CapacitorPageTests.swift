import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// Pages that were built for phones with a live-update plugin, unmodified in `clientctl serve`.
@Suite(.ownThread, .needsBrowser) struct CapacitorPageTests {
    /// A live-update plugin, as pages use it by its documentation.
    enum Plugin: String, CaseIterable, CustomTestStringConvertible, Sendable {
        case capgo = "CapacitorUpdater"
        case capawesome = "LiveUpdate"
        case codePush = "CodePush"

        var testDescription: String { rawValue }

        /// Confirms the start of the page.
        var confirm: String {
            switch self {
            case .capgo: "plugin.notifyAppReady()"
            case .capawesome: "plugin.ready()"
            case .codePush: "new Promise((done, failed) => codePush.notifyApplicationReady(done, failed))"
            }
        }

        /// Shows the client that is ready.
        var update: String {
            switch self {
            case .capgo: "plugin.getLatest().then(latest => plugin.set({ id: latest.version }))"
            case .capawesome: "plugin.sync().then(latest => latest.nextBundleId && plugin.reload())"
            case .codePush:
                "new Promise(done => codePush.sync(done, { installMode: InstallMode.IMMEDIATE }))"
            }
        }
    }

    let browser: Browser
    let kiosk: Kiosk

    init() throws {
        browser = try Browser.forAllTests()
        kiosk = try Kiosk()
    }

    /// A plugin proxy by the contract of @capacitor/core: the native side has the listed methods, the web side the others.
    private static let core = """
        function registerPlugin(name) {
          const header = (Capacitor.PluginHeaders || []).find(header => header.name === name);
          const call = (method, options, callback) => {
            const found = header && header.methods.find(other => other.name === method);
            if (!found) throw new Error(name + '.' + method + ' has only a web implementation');
            return found.rtype === 'promise' ? Capacitor.nativePromise(name, method, options)
              : Capacitor.nativeCallback(name, method, options, callback);
          };
          return new Proxy({}, { get: (_, method) => method !== 'addListener' ? async options => call(method, options)
            : async (eventName, callback) => {
              const callbackId = await call('addListener', { eventName }, callback);
              return { remove: async () => call('removeListener', { eventName, callbackId }, callback) };
            } });
        }

        """

    private static func client(_ version: String, _ plugin: Plugin, breaks: Bool = false) -> DemoClient {
        DemoClient.doing(
            version,
            core + "var plugin = registerPlugin('\(plugin.rawValue)');\n"
                + (breaks ? "throw new Error('\(version) is broken');\n" : "")
                + "\(plugin.confirm).then(answer => { window.confirmed = true; window.answer = answer; });\n")
    }

    private func shows(_ page: BrowserPage, _ version: String) throws {
        try page.wait(until: "window.version === '\(version)' && document.readyState === 'complete'")
    }

    private func value(_ page: BrowserPage, _ expression: String) throws -> String {
        try page.evaluate("Promise.resolve(\(expression)).then(JSON.stringify)").stringValue ?? "undefined"
    }

    @Test(arguments: Plugin.allCases)
    func `a page with a live-update plugin confirms a good release and leaves a broken one`(plugin: Plugin) throws {
        try kiosk.install(Self.client("1.0.0", plugin))
        let serving = try kiosk.serve(timeout: "\(BusyMachine.seconds(5))s")
        let page = try browser.open(serving.root + "/", inWindow: true)
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")

        try kiosk.install(Self.client("2.0.0", plugin))
        try page.evaluate("\(plugin.update); null")
        try shows(page, "2.0.0")
        try kiosk.wait(until: "v2.0.0", is: "good")

        try kiosk.install(Self.client("3.0.0", plugin, breaks: true))
        try page.evaluate("\(plugin.update); null")
        try kiosk.wait(until: "v3.0.0", is: "failed")
        try shows(page, "2.0.0")
        try page.wait(until: "window.confirmed")
        let failed = try kiosk.status(of: "v3.0.0")
        #expect(failed.failures.first?["detail"]?.stringValue?.contains("3.0.0 is broken") == true)
        switch plugin {
        case .capgo:
            #expect(try value(page, "plugin.getFailedUpdate().then(failed => failed.bundle.version)") == "\"3.0.0\"")
            let event = "plugin.addListener('updateFailed', event => { window.failedUpdate = event.bundle; })"
            try page.evaluate("\(event).then(() => null)")
            try page.wait(until: "window.failedUpdate")
            #expect(try value(page, "[failedUpdate.id, failedUpdate.status]") == #"["3.0.0","error"]"#)
        case .capawesome:
            #expect(
                try value(page, "answer")
                    == #"{"currentBundleId":"2.0.0","previousBundleId":"3.0.0","rollback":true}"#)
        case .codePush: break
        }
        #expect(try kiosk.status(of: "v2.0.0").state == "good")
    }

    @Test func `CapacitorUpdater describes the seed and the installed clients`() throws {
        try kiosk.folder.writeTree(Self.client("embedded", .capgo).files, to: "seed")
        let serving = try kiosk.serve()
        let page = try browser.open(serving.root + "/", inWindow: true)
        try page.wait(until: "window.confirmed")
        let builtin = #"{"id":"builtin","version":"builtin","downloaded":"","checksum":"","status":"success"}"#
        #expect(try value(page, "plugin.current().then(now => [now.bundle, now.native])") == "[\(builtin),\"1.5.0\"]")
        #expect(try value(page, "plugin.getNextBundle()") == "null")
        #expect(try value(page, "plugin.getFailedUpdate()") == "null")
        #expect(try value(page, "plugin.getBuiltinVersion()") == #"{"version":"1.5.0"}"#)
        #expect(try value(page, "plugin.getLatest()") == #"{"version":"builtin","kind":"up_to_date"}"#)
        #expect(try value(page, "plugin.triggerUpdateCheck()") == #"{"status":"queued","queued":true}"#)
        #expect(try value(page, "registerPlugin('LiveUpdate').getCurrentBundle()") == #"{"bundleId":null}"#)
        let code = "catch(error => error.code)"
        for call in ["set({ id: '9.9.9' })", "next({ id: 'builtin' })", "download({ url: '/' })", "reset()"] {
            #expect(try value(page, "plugin.\(call).\(code)") == "\"UNIMPLEMENTED\"", "\(call)")
        }

        try page.evaluate(
            """
            window.seen = [];
            Promise.all(['updateAvailable', 'downloadComplete', 'noNeedUpdate', 'updateFailed'].map(name =>
              plugin.addListener(name, event => { seen.push(name + ' ' + event.bundle.id); }))).then(all => {
                window.handles = all; return null; })
            """)
        try kiosk.install(Self.client("1.0.0", .capgo))
        // A check that the page requested before may end now.
        let ready = "seen.filter(text => text !== 'noNeedUpdate builtin')"
        try page.wait(until: "\(ready).length === 2")
        #expect(try value(page, ready) == #"["updateAvailable 1.0.0","downloadComplete 1.0.0"]"#)
        #expect(try value(page, "plugin.getLatest()") == #"{"version":"1.0.0"}"#)
        #expect(
            try value(page, "plugin.next({ id: '1.0.0' }).then(next => [next.id, next.status])")
                == #"["1.0.0","pending"]"#)
        #expect(try value(page, "plugin.list().then(all => all.bundles.map(one => one.id))") == #"["1.0.0"]"#)
        try page.evaluate("Promise.all(handles.map(handle => handle.remove())).then(() => null)")
        try page.evaluate("plugin.reload(); null")
        try shows(page, "1.0.0")
        try kiosk.wait(until: "v1.0.0", is: "good")
        // Without another client, the page is loaded again.
        let loads = page.loads
        try page.evaluate("plugin.reload(); null")
        try page.wait(for: "it is loaded again") { $0.loads == loads + 1 }
    }

    /// Installs 1.0.0, a page with CapacitorUpdater, and starts `serve`.
    private func serve(_ settings: [String] = []) throws -> Serving {
        try kiosk.install(Self.client("1.0.0", .capgo))
        return try kiosk.serve(settings)
    }

    /// Opens the page and waits until it has confirmed its start.
    private func open(_ serving: Serving) throws -> BrowserPage {
        let page = try browser.open(serving.root + "/", inWindow: true)
        try page.wait(until: "window.confirmed")
        return page
    }

    @Test func `CapacitorUpdater reports a confirmed start and a check without news`() throws {
        let serving = try serve()
        let page = try open(serving)
        try page.evaluate(
            """
            window.seen = [];
            Promise.all(['appReady', 'noNeedUpdate'].map(name =>
              plugin.addListener(name, event => { seen.push(name + ' ' + event.bundle.id); }))).then(() => null)
            """)
        #expect(try value(page, "plugin.notifyAppReady().then(answer => answer.bundle.id)") == "\"1.0.0\"")
        #expect(try value(page, "plugin.getLatest()") == #"{"version":"1.0.0","kind":"up_to_date"}"#)
        try page.wait(until: "seen.length === 2")
        #expect(try value(page, "seen") == #"["appReady 1.0.0","noNeedUpdate 1.0.0"]"#)
    }

    @Test func `setMultiDelay of CapacitorUpdater delays an update until cancelDelay`() throws {
        let serving = try serve(["--activation-window", "00:00-24:00"])
        let page = try open(serving)
        try page.evaluate("plugin.setMultiDelay({ delayConditions: [{ kind: 'background' }] }).then(() => null)")
        try page.evaluate("WebAppLocalServer.onNewVersionReady(version => { window.ready = version })")
        try kiosk.install(Self.client("2.0.0", .capgo))
        // A page that is not busy would be switched when this event arrives.
        try page.wait(until: "window.ready === '2.0.0'")
        #expect(try page.evaluate("window.version").stringValue == "1.0.0")
        try page.evaluate("plugin.cancelDelay(); null")
        try shows(page, "2.0.0")
    }

    @Test func `LiveUpdate names the client that is ready and rejects others`() throws {
        let serving = try serve()
        let page = try open(serving)
        try page.evaluate("window.live = registerPlugin('LiveUpdate'); null")
        #expect(try value(page, "live.getNextBundle()") == #"{"bundleId":null}"#)
        #expect(try value(page, "live.sync()") == #"{"nextBundleId":null}"#)
        try kiosk.install(Self.client("2.0.0", .capgo))
        try page.wait(until: "live.getNextBundle().then(next => next.bundleId === '2.0.0')")
        #expect(try value(page, "live.fetchLatestBundle()") == #"{"bundleId":"2.0.0"}"#)
        #expect(try value(page, "live.sync()") == #"{"nextBundleId":"2.0.0"}"#)
        #expect(try value(page, "live.setNextBundle({ bundleId: '2.0.0' }).then(() => 'accepted')") == "\"accepted\"")
        for call in [
            "live.setNextBundle({ bundleId: '1.0.0' })", "live.downloadBundle({ bundleId: '2.0.0' })",
            "live.deleteBundle({ bundleId: '1.0.0' })", "live.reset()", "live.setChannel({ channel: 'beta' })",
            "plugin.delete({ id: '1.0.0' })", "plugin.setBundleError({ id: '1.0.0' })",
            "plugin.setChannel({ channel: 'beta' })", "plugin.unsetChannel({})",
        ] {
            #expect(try value(page, "\(call).catch(error => error.code)") == "\"UNIMPLEMENTED\"", "\(call)")
        }
        #expect(try page.evaluate("window.version").stringValue == "1.0.0")
        try page.evaluate("live.reload(); null")
        try shows(page, "2.0.0")
    }

    @Test func `sync of CodePush reports whether an update is ready, and shows it only with IMMEDIATE`() throws {
        let serving = try serve()
        let page = try open(serving)
        let sync = "new Promise(done => codePush.sync(done, { installMode: InstallMode.ON_NEXT_RESTART }))"
        #expect(try value(page, "\(sync).then(status => status === SyncStatus.UP_TO_DATE)") == "true")
        try kiosk.install(Self.client("2.0.0", .capgo))
        try page.wait(until: "plugin.getNextBundle().then(next => next)")
        #expect(try value(page, "\(sync).then(status => status === SyncStatus.UPDATE_INSTALLED)") == "true")
        #expect(try page.evaluate("window.version").stringValue == "1.0.0")
        try page.evaluate("codePush.sync(null, { installMode: InstallMode.IMMEDIATE }); null")
        try shows(page, "2.0.0")
    }

    @Test func `the plugins report a check that fails`() throws {
        let serving = try serve(["--manifest", "http://127.0.0.1:1/manifest.json", "--trust", kiosk.trust])
        let page = try open(serving)
        #expect(
            try value(page, "new Promise(done => codePush.sync(done)).then(status => status === SyncStatus.ERROR)")
                == "true")
        let live = "registerPlugin('LiveUpdate')"
        for call in ["plugin.getLatest()", "\(live).sync()", "\(live).fetchLatestBundle()"] {
            #expect(try value(page, "\(call).catch(error => error.code)") == "\"networkUnavailable\"", "\(call)")
        }
    }

    @Test(arguments: [nil, "electron"])
    func `serve names the platform of --capacitor-platform in pages`(platform: String?) throws {
        try kiosk.install(.good("1.0.0"))
        let serving = try kiosk.serve(platform.map { ["--capacitor-platform", $0] } ?? [])
        let page = try browser.open(serving.root + "/")
        try page.wait(until: "window.confirmed")
        let found = try value(page, "window.CapacitorCustomPlatform ? CapacitorCustomPlatform.name : null")
        #expect(found == (platform.map { "\"\($0)\"" } ?? "null"))
        #expect(page.console.filter { $0.text.contains("Content Security Policy") } == [])
    }
}
