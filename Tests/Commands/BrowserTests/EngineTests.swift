import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

/// `serve --browser` with the engines of kiosks.
@Suite(.serialized, .ownThread) struct EngineTests {
    private let kiosk: Kiosk
    /// Receives the reports of pages.
    private let witness: LoopbackServer
    private let folder: TemporaryFolder
    /// The number of page loads that hang, which the witness decreases.
    private let hangs = Counter()

    /// A number that the thread of the witness changes.
    private final class Counter: Sendable {
        let left = Mutex(0)

        func take() -> Bool {
            left.withLock { left in
                defer { left = max(left - 1, 0) }
                return left > 0
            }
        }
    }

    init() throws {
        kiosk = try Kiosk()
        folder = try TemporaryFolder()
        witness = try LoopbackServer { [hangs] request in
            Route(bytes(request.path == "/hang" && hangs.take() ? "hang" : "work")).with {
                $0.headers = [("Access-Control-Allow-Origin", "*"), ("Content-Type", "text/plain")]
            }
        }
    }

    /// Returns a client that reports that it is shown, confirms and then runs `script`.
    private func client(_ version: String, _ script: String = "") -> DemoClient {
        let report = """
            function tell(what) { fetch('\(witness.root)/' + what).catch(() => {}); }
            tell('shown/' + version);

            """
        return DemoClient.doing(
            version,
            report + DemoClient.Scripts.update + DemoClient.Scripts.errors + DemoClient.Scripts.confirm + script)
    }

    /// Returns a client that hides its page before it confirms, for longer than `timeout` in seconds. It confirms while
    /// the page is still hidden, or after it is shown again.
    private func hiding(
        _ version: String, in engine: Engine, longerThan timeout: Int, confirmsHidden: Bool
    ) throws -> DemoClient {
        let (hide, show) = try #require(engine.hiding)
        let end = confirmsHidden ? DemoClient.Scripts.confirm + show : show + "confirmsSeen = true;\n"
        return DemoClient.doing(
            version,
            """
            function tell(what) { fetch('\(witness.root)/' + what + '/' + version).catch(() => {}); }
            var hiddenAt = 0, confirmsSeen = false;
            function proceed() {
              if (document.visibilityState !== 'hidden') {
                if (confirmsSeen) { clearInterval(timer); tell('seen'); \(DemoClient.Scripts.confirm) }
              } else if (!hiddenAt) {
                hiddenAt = Date.now();
              } else if (Date.now() - hiddenAt > \(timeout * 1500) && !confirmsSeen) {
                tell('over');
                \(confirmsHidden ? "clearInterval(timer);" : "")
                \(end)
              }
            }
            var timer = setInterval(proceed, 200);
            tell('shown');
            \(DemoClient.Scripts.update)
            \(hide)

            """)
    }

    private func serve(
        _ engine: Engine, heartbeat: Int = BusyMachine.seconds(30), timeout: Int = BusyMachine.seconds(10),
        _ more: [String] = []
    ) throws -> Serving {
        try kiosk.serve(
            timeout: "\(timeout)s",
            [
                "--browser", "\(engine.program(in: folder)) {profile} {url}", "--heartbeat", "\(heartbeat)s", "--csp",
                "connect-src \(witness.root)",
            ] + more)
    }

    private func times(_ path: String) -> Int { witness.requests.count { $0.path == path } }

    private func wait(_ trouble: String, _ serving: Serving, until isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience * 2
        while try !isMet() {
            try #require(
                ContinuousClock.now < deadline, "\(trouble): \((try? serving.program.printed().errors) ?? "")")
            poll(nil, 0, 20)
        }
    }

    private func end(_ serving: Serving) throws {
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
    }

    @Test(arguments: Engine.kiosks)
    func `an engine confirms a good release, leaves a broken one, and keeps nothing of a session`(engine: Engine) throws
    {
        try engine.require()
        try kiosk.folder.writeTree(
            client("embedded", "tell('guest-' + (localStorage.secret || 'nothing'));\n").files, to: "seed")
        try kiosk.install(client("1.0.0", "localStorage.secret = 'secret'; tell('kept-' + localStorage.secret);\n"))
        try kiosk.login()
        let serving = try serve(engine)
        try wait("1.0.0 stores nothing", serving) { times("/kept-secret") > 0 }
        try kiosk.wait(until: "v1.0.0", is: "good")

        let broken = "throw new Error('2.0.0 is broken');\n"
        try kiosk.install(.doing("2.0.0", "fetch('\(witness.root)/shown/2.0.0');\n" + broken))
        try wait("2.0.0 is not shown", serving) { times("/shown/2.0.0") > 0 }
        let before = times("/shown/1.0.0")
        try kiosk.wait(until: "v2.0.0", is: "failed")
        let detail = try kiosk.status(of: "v2.0.0").failures.first?["detail"]?.stringValue
        #expect(detail?.contains("2.0.0 is broken") == true, "\(detail ?? "nothing")")
        try wait("1.0.0 does not return", serving) { times("/shown/1.0.0") > before }

        try kiosk.on("session logout")
        try wait("the guest sees no page", serving) { times("/guest-nothing") + times("/guest-secret") > 0 }
        #expect(times("/guest-secret") == 0)
        try end(serving)
    }

    @Test(arguments: Engine.kiosks.filter { $0.hiding != nil })
    func `a page that is hidden for longer than its startup timeout can confirm its client`(
        engine: Engine
    ) throws {
        try engine.require()
        let timeout = BusyMachine.seconds(5)
        try kiosk.install(hiding("1.0.0", in: engine, longerThan: timeout, confirmsHidden: false))
        let serving = try serve(engine, heartbeat: timeout * 8, timeout: timeout)
        try wait("1.0.0 is not hidden", serving) { times("/over/1.0.0") == 1 }
        try wait("1.0.0 is not shown again", serving) { times("/seen/1.0.0") == 1 }
        try kiosk.wait(until: "v1.0.0", is: "good")
        try kiosk.install(hiding("2.0.0", in: engine, longerThan: timeout, confirmsHidden: true))
        try wait("2.0.0 is not hidden", serving) { times("/over/2.0.0") == 1 }
        try kiosk.wait(until: "v2.0.0", is: "good")
        for version in ["1.0.0", "2.0.0"] {
            #expect(try kiosk.status(of: "v\(version)").failures.isEmpty)
            #expect(times("/shown/\(version)") == 1, "\(version) was loaded again")
        }
        try end(serving)
    }

    @Test(arguments: Engine.kiosks)
    func `a page whose films and long polls occupy every connection confirms its first start`(engine: Engine) throws {
        try engine.require()
        // A player requests more of a film only when it has played the part before, and a long poll has no end.
        let films = """
            var token = document.querySelector('meta[name=clientctl-token]').content, held = [];
            for (let number = 0; number < 12; number += 1) {
              var film = document.createElement('video');
              film.preload = 'auto';
              film.src = '/film.wav?' + number;
              document.body.append(film);
              fetch('/__clientctl/v1/events?poll' + number, { headers: { 'X-Client-Token': token } })
                .then(answer => held.push(answer.body.getReader())).catch(() => {});
            }
            for (let number = 0; number < 200; number += 1) {
              fetch('/lazy.js?' + number).then(() => tell('fetched')).catch(() => {});
            }
            setTimeout(() => { \(DemoClient.Scripts.confirm) }, 1500);

            """
        let report = "function tell(what) { fetch('\(witness.root)/' + what).catch(() => {}); }\ntell('shown');\n"
        var files = DemoClient.doing("1.0.0", report + films).files
        files["film.wav"] = Self.film(bytes: 32 << 20)
        try kiosk.publish(try kiosk.folder.writeTree(files, to: "films"), as: "1.0.0")
        try kiosk.install()
        let serving = try serve(engine)
        try kiosk.wait(until: "v1.0.0", is: "good")
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
        #expect(times("/shown") == 1)
        print("\(engine): \(times("/fetched")) of 200 requests were answered")
        try end(serving)
    }

    /// Returns a film without pictures: noise in the format WAVE.
    private static func film(bytes count: Int) -> [UInt8] {
        func number(_ value: Int, _ width: Int) -> [UInt8] { (0..<width).map { UInt8(value >> (8 * $0) & 0xFF) } }
        let format = number(1, 2) + number(2, 2) + number(44_100, 4) + number(176_400, 4) + number(4, 2) + number(16, 2)
        let head = bytes("WAVEfmt ") + number(16, 4) + format + bytes("data") + number(count, 4)
        // An archive with a film that compresses too well is refused.
        let block = noise(1 << 20)
        return bytes("RIFF") + number(head.count + count, 4) + head
            + (0..<count / block.count).flatMap { _ in block }
    }

    @Test(arguments: Engine.kiosks)
    func `serve restarts an engine whose page has crashed`(engine: Engine) throws {
        try engine.require()
        try kiosk.install(client("1.0.0"))
        let serving = try serve(engine, heartbeat: 600)
        try kiosk.wait(until: "v1.0.0", is: "good")
        let shown = times("/shown/1.0.0")
        let kind =
            switch engine {
            case .chromium: "type=renderer"
            case .firefox: "contentproc.*tab"
            case .webKit, .webKitView: "WebKitWebProcess"
            case .wpe: "WPEWebProcess"
            case .qt: "QtWebEngineProcess"
            }
        let found = try Program.run(["pgrep", "-f", "--", kind], environment: ["PATH": "/usr/bin:/bin"])
        let all = found.text.split(separator: "\n").compactMap { pid_t($0) }.filter(runs)
        // Other processes of QtWebEngine start its renderer, and have the same arguments.
        let parents = all.compactMap(parent)
        let own = engine == .qt ? all.filter { !parents.contains($0) && all.contains(parent($0) ?? 0) } : all
        #expect(!own.isEmpty)
        for process in own { kill(process, SIGKILL) }
        try wait("1.0.0 does not return", serving) { times("/shown/1.0.0") > shown }
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
        try end(serving)
    }

    /// Returns whether the browser of this test, whose files are in the folder, has started a process.
    private func runs(_ process: pid_t) -> Bool {
        var next: pid_t? = process
        while let process = next, process > 1 {
            let arguments = (try? contents(ofFile: "/proc/\(process)/cmdline")) ?? []
            if String(decoding: arguments, as: UTF8.self).contains(kiosk.folder.path) { return true }
            next = parent(process)
        }
        return false
    }

    private func parent(_ process: pid_t) -> pid_t? {
        let state = String(decoding: (try? contents(ofFile: "/proc/\(process)/stat")) ?? [], as: UTF8.self)
        let fields = state.drop { $0 != ")" }.split(separator: " ")
        return fields.count > 2 ? pid_t(fields[2]) : nil
    }

    @Test(arguments: [Engine.chromium, .firefox])
    func `a trial continues for its page when a second tab closes`(engine: Engine) throws {
        try engine.require()
        try kiosk.install(client("1.0.0"))
        let serving = try serve(engine)
        try kiosk.wait(until: "v1.0.0", is: "good")
        let tabs = """
            tell('shown/2.0.0');
            function tell(what) { fetch('\(witness.root)/' + what).catch(() => {}); }
            if (!window.opener) {
              var other = window.open('/');
              var timer = setInterval(() => {
                if (other.version !== '2.0.0' || other.document.readyState !== 'complete') { return; }
                clearInterval(timer);
                setTimeout(() => { other.close(); tell('closed'); }, 500);
              }, 100);
            }

            """
        try kiosk.install(.doing("2.0.0", tabs))
        try wait("no tab was closed", serving) { times("/closed") == 1 }
        let before = times("/shown/1.0.0")
        try kiosk.wait(until: "v2.0.0", is: "failed")
        try wait("1.0.0 does not return", serving) { times("/shown/1.0.0") > before }
        try end(serving)
    }

    @Test(arguments: Engine.kiosks)
    func `a page in an engine receives its status, the next release and the progress of its download`(engine: Engine)
        throws
    {
        try engine.require()
        let listening = """
            function tell(what) { fetch('\(witness.root)/' + what).catch(() => {}); }
            var plugin = Capacitor.Plugins.CapacitorMeteorWebApp;
            plugin.addListener('updateAvailable', next => {
                plugin.getStatus().then(status => tell(
                    [next.version, next.notes, next.urgent, next.size === status.ready.size, status.running.version].join('-')));
            });
            plugin.addListener('downloadProgress', event => { if (event.of > 0 && event.bytes <= event.of) tell('progress'); });
            plugin.getStatus().then(status => tell('running-' + status.running.version + '-' + status.ready));

            """
        try kiosk.install(.doing("1.0.0", listening + DemoClient.Scripts.confirm))
        let serving = try serve(
            engine, ["--manifest", kiosk.manifest, "--trust", kiosk.trust, "--check-interval", "1s"])
        try wait("the page has no status", serving) { times("/running-1.0.0-null") > 0 }
        var next = DemoClient.doing("2.0.0", DemoClient.Scripts.confirm)
        next.more = ["large.js": (0..<40_000).map { "\($0 &* 2_654_435_761 % 1_000_003)" }.joined(separator: ";")]
        let notes = try kiosk.folder.write(bytes("Faster"), to: "notes.txt")
        try kiosk.publish(
            try kiosk.folder.writeTree(next.files, to: "web-2"), as: "2.0.0", more: ["--notes", notes, "--no-deltas"])
        try wait("the page receives no release", serving) { times("/2.0.0-Faster-false-true-1.0.0") > 0 }
        try wait("the page receives no progress", serving) { times("/progress") > 0 }
        try end(serving)
    }

    @Test(arguments: Engine.kiosks)
    func `serve restarts an engine that ends, and one that hangs`(engine: Engine) throws {
        try engine.require()
        let hanging = """
            fetch('\(witness.root)/hang').then(answer => answer.text()).then(text => { while (text === 'hang') {} });

            """
        try kiosk.install(client("1.0.0", hanging))
        let serving = try serve(engine, heartbeat: BusyMachine.seconds(6))
        try wait("1.0.0 is not shown", serving) { times("/shown/1.0.0") == 1 }
        try kiosk.wait(until: "v1.0.0", is: "good")
        let children = try Program.run(
            ["pgrep", "-P", "\(serving.program.number)"], environment: ["PATH": "/usr/bin:/bin"])
        let leader = try #require(children.text.split(separator: "\n").compactMap { pid_t($0) }.first)
        hangs.left.withLock { $0 = 1 }
        kill(-leader, SIGKILL)
        try wait("the engine is not restarted", serving) { times("/shown/1.0.0") >= 2 }
        try wait("a hung engine is not restarted", serving) { times("/shown/1.0.0") >= 3 }
        // The page stays good: its start was confirmed before.
        #expect(try kiosk.status(of: "v1.0.0").state == "good")
        try end(serving)
    }
}
