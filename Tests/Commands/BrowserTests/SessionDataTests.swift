import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Browser data of a user that the next user must not find, in each installed engine.
@Suite(
    .serialized, .ownThread,
    .enabled(if: !Engine.installed.isEmpty, "no browser: Scripts/bootstrap --engines installs three"))
struct SessionDataTests {
    let kiosk: Kiosk
    /// Receives the findings of pages.
    let witness: LoopbackServer

    init() throws {
        kiosk = try Kiosk()
        witness = try LoopbackServer { _ in .html("received") }
    }

    /// Returns the page of the first user, which stores data in every storage and on every event. It runs `last` and then reports.
    private func leaving(last: String = "") -> String {
        """
        let isStoring = false;
        function tell(what) { fetch('\(witness.root)/' + what, {mode: 'no-cors'}).catch(() => {}); }
        function leave(when) {
          // A change of the address calls the listener of `navigate`.
          if (isStoring) return;
          isStoring = true;
          try {
            localStorage['late-' + when] = 'secret';
            sessionStorage['late-' + when] = 'secret';
            document.cookie = 'late-' + when + '=secret; max-age=9999';
            document.cookie = 'late-orders-' + when + '=secret; max-age=9999; path=/orders';
            indexedDB.open('late-' + when).onupgradeneeded = event => event.target.result.createObjectStore('x').put(1, 'secret');
            caches.open('late-' + when).then(cache => cache.put('/secret', new Response('secret')));
            history.replaceState({who: 'alice'}, '', location.href);
          } catch (error) {}
          isStoring = false;
        }
        window.name = 'alice-name';
        WebAppLocalServer.startupDidComplete();
        if (location.pathname === '/') {
          addEventListener('load', () => setTimeout(() => { location.href = '/account/profile?iban=DE00'; }, 300));
        } else if (location.pathname === '/account/profile') {
          document.cookie = 'defaultpath=alice; max-age=99999';
          for (const name of ['beforeunload', 'pagehide', 'unload', 'visibilitychange', 'pageswap', 'freeze']) {
            addEventListener(name, () => leave(name));
            document.addEventListener(name, () => leave('document-' + name));
          }
          document.addEventListener('DOMContentLoaded', () => { document.body.onbeforeunload = () => leave('attribute'); });
          if (window.navigation) navigation.addEventListener('navigate', () => leave('navigate'));
          setInterval(() => leave('timer'), 30);
          try { new SharedWorker('/worker.js').port.start(); } catch (error) {}
          new Worker('/worker.js');
          if (navigator.storage && navigator.storage.getDirectory)
            navigator.storage.getDirectory().then(folder => folder.getFileHandle('secret', {create: true})).catch(() => {});
          leave('now');
          history.pushState({who: 'alice'}, '', '/orders/alice-4711?iban=DE00');
          setTimeout(() => { \(last)tell('ready'); }, 1500);
        }
        """
    }

    private let worker = """
        setInterval(() => {
          indexedDB.open('worker').onupgradeneeded = event => event.target.result.createObjectStore('x').put(1, 'secret');
          caches.open('worker').then(cache => cache.put('/secret', new Response('secret'))).catch(() => {});
        }, 20);
        """

    /// The page of the next user, which reports the data it finds at each address of the first user.
    private var finding: String {
        """
        const places = ['/', '/account/profile', '/orders/1', '/end'];
        async function find() {
          const found = [];
          const note = (kind, names) => { for (const name of names) if (!String(name).startsWith('clientctl-')) found.push(kind + ' ' + name); };
          note('local', Object.keys(localStorage));
          note('session', Object.keys(sessionStorage));
          note('cookie', document.cookie.split('; ').filter(Boolean));
          note('name', [window.name].filter(Boolean));
          note('state', [history.state].filter(Boolean).map(JSON.stringify));
          note('database', indexedDB.databases ? (await indexedDB.databases()).map(base => base.name) : []);
          note('cache', await caches.keys());
          if (navigator.storage && navigator.storage.getDirectory)
            for await (const name of (await navigator.storage.getDirectory()).keys()) note('file', [name]);
          if (window.navigation) note('address', navigation.entries().map(entry => entry.url).filter(url => /alice|iban/.test(url)));
          if (/alice|iban/.test(location.href)) note('address', [location.href]);
          if (document.referrer.includes('alice')) note('referrer', [document.referrer]);
          return found;
        }
        WebAppLocalServer.startupDidComplete();
        addEventListener('load', () => setTimeout(async () => {
          let found;
          try { found = await find(); } catch (error) { found = ['error ' + error]; }
          await fetch('\(witness.root)/found?' + encodeURIComponent(JSON.stringify([location.pathname, found])), {mode: 'no-cors'}).catch(() => {});
          const next = places[places.indexOf(location.pathname) + 1];
          if (next) location.replace(next);
        }, 700));
        """
    }

    private func client(_ version: String, _ script: String) -> DemoClient {
        var client = DemoClient(version)
        client.more = ["app.js": script, "worker.js": worker]
        return client
    }

    /// Returns the addresses that pages checked so far, and the data they found there.
    private func found() throws -> [(place: String, what: [String])] {
        try witness.requests.filter { $0.target.hasPrefix("/found?") }.map { request in
            let text = request.target.dropFirst("/found?".count).removingPercentEncoding
            let list = try JSONScanner.parse(Array(text.utf8), maximumBytes: 1 << 20).arrayValue ?? []
            return (list.first?.stringValue ?? "", list.last?.arrayValue?.compactMap(\.stringValue) ?? [])
        }
    }

    private func wait(_ trouble: @autoclosure () -> String, until isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while try !isMet() {
            try #require(ContinuousClock.now < deadline, "\(trouble())")
            poll(nil, 0, 20)
        }
    }

    private func expectNothing(_ name: String, _ serving: Serving) throws {
        try wait(
            "\(name) did not check every address: \((try? found()) ?? []); \((try? serving.program.printed().errors) ?? "")"
        ) {
            try found().contains { $0.place == "/end" }
        }
        #expect(try found().map(\.place) == ["/", "/account/profile", "/orders/1", "/end"])
        for (place, what) in try found() { #expect(what.isEmpty, "\(name) finds this at \(place): \(what)") }
    }

    @Test(arguments: Engine.installed)
    func `a guest finds no data of the logged-out user`(engine: Engine) throws {
        try kiosk.folder.writeTree(client("embedded", finding).files, to: "seed")
        try kiosk.install(client("1.0.0", leaving()))
        try kiosk.login()
        let serving = try kiosk.serve(["--csp", "connect-src \(witness.root)"])
        let browser = try RunningEngine(engine, serving.root + "/")
        try wait("the user's page is not shown: \(browser.errors)") {
            witness.requests.contains { $0.target == "/ready" }
        }
        try kiosk.on("session logout")
        try expectNothing("a guest", serving)
    }

    @Test(arguments: Engine.installed)
    func `logout clears the data of a page that changes its address continuously`(engine: Engine) throws {
        let often = "for (let i = 0; i < 400; i++) try { history.replaceState(null, '', '/' + i); } catch (error) {}"
        try kiosk.folder.writeTree(client("embedded", finding).files, to: "seed")
        try kiosk.install(client("1.0.0", leaving(last: often)))
        try kiosk.login()
        let serving = try kiosk.serve(["--csp", "connect-src \(witness.root)"])
        let browser = try RunningEngine(engine, serving.root + "/")
        try wait("the user's page is not shown: \(browser.errors)") {
            witness.requests.contains { $0.target == "/ready" }
        }
        try kiosk.on("session logout")
        try expectNothing("a guest", serving)
    }

    // Surf opens no windows for scripts, so WebKit is excluded.
    @Test(arguments: Engine.installed.filter { $0 != .webKit })
    func `logout removes windows that the page opened`(engine: Engine) throws {
        func reporting(_ user: String) -> String {
            "setInterval(() => fetch('\(witness.root)/\(user)' + location.pathname, {mode: 'no-cors'}).catch(() => {}), 100);"
                + "WebAppLocalServer.startupDidComplete();"
        }
        try kiosk.folder.writeTree(client("embedded", reporting("guest")).files, to: "seed")
        let opening = "if (location.pathname === '/') open('/window?iban=DE00', 'alice', 'width=300,height=300');"
        try kiosk.install(client("1.0.0", reporting("alice") + opening))
        try kiosk.login()
        let serving = try kiosk.serve(["--csp", "connect-src \(witness.root)"])
        let browser = try RunningEngine(engine, serving.root + "/")
        try wait("no page opens a window: \(browser.errors)") {
            Set(["/alice/", "/alice/window"]).isSubset(of: witness.requests.map(\.target))
        }
        try kiosk.on("session logout")
        try wait("a page of the previous session still runs") {
            witness.requests.reversed().prefix { $0.target.hasPrefix("/guest/") }.count >= 50
        }
    }

    @Test(arguments: Engine.installed)
    func `serve starts a browser with an empty profile for a guest`(engine: Engine) throws {
        let folder = try TemporaryFolder()
        try kiosk.folder.writeTree(client("embedded", finding).files, to: "seed")
        try kiosk.install(client("1.0.0", leaving()))
        try kiosk.login()
        let serving = try kiosk.serve([
            "--csp", "connect-src \(witness.root)", "--browser", "\(engine.program(in: folder)) {profile} {url}",
        ])
        try wait("the user's page is not shown") { witness.requests.contains { $0.target == "/ready" } }
        let profiles = kiosk.folder.file("state/clientctl")
        let before = try FolderSnapshot.names(in: profiles)
        try kiosk.on("session logout")
        try expectNothing("a guest", serving)
        let after = try FolderSnapshot.names(in: profiles)
        #expect(before.count == 1 && after.count == 1 && before != after)
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
        #expect(try FolderSnapshot.names(in: profiles).isEmpty)
    }

    @Test(arguments: Engine.installed)
    func `the next user finds no data of the previous user without a guest in between`(engine: Engine) throws {
        try kiosk.install(client("1.0.0", leaving()))
        try kiosk.login()
        let serving = try kiosk.serve(["--csp", "connect-src \(witness.root)"])
        let browser = try RunningEngine(engine, serving.root + "/")
        try wait("the user's page is not shown: \(browser.errors)") {
            witness.requests.contains { $0.target == "/ready" }
        }
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(client("2.0.0", finding))
        try kiosk.on("session logout")
        try kiosk.login()
        try expectNothing("the next user", serving)
    }
}

extension StringProtocol {
    /// The text with its percent escapes decoded, as UTF-8.
    fileprivate var removingPercentEncoding: String {
        var bytes: [UInt8] = []
        var rest = Array(utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
