import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Pages that confirm their start, in the engines of kiosks: blank ones are rolled back, and all others stay.
@Suite(.serialized, .ownThread) struct BlankScreenTests {
    private let kiosk: Kiosk
    private let witness: LoopbackServer
    private let folder: TemporaryFolder

    init() throws {
        kiosk = try Kiosk()
        folder = try TemporaryFolder()
        witness = try LoopbackServer { request in
            var route = Route(bytes("x"))
            route.headers = [("Access-Control-Allow-Origin", "*")]
            if request.path.hasSuffix(".woff2") { route.delayMilliseconds = 20_000 }
            return route
        }
    }

    /// A page that is not blank.
    private struct Content {
        var html = ""
        var style = "margin: 0"
        var head = ""
        var script = ""
        var more: [String: String] = [:]
    }

    private static let picture = """
        <svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><rect width="300" height="200" fill="#a32"/></svg>
        """

    private var contents: [(kind: String, content: Content)] {
        [
            ("canvas", Content(html: "<canvas id=c></canvas>", script: "c.getContext('2d').fillRect(0, 0, 99, 99);")),
            ("WebGL", Content(html: "<canvas id=c></canvas>", script: "c.getContext('webgl');")),
            ("video", Content(html: "<video src=/film.webm></video>")),
            ("dark signage", Content(html: "<p>12:30</p>", style: "background: #000; color: #222")),
            (
                "a slow font",
                Content(
                    html: "<p>Welcome</p>",
                    head: """
                        <style>@font-face { font-family: Slow; src: url(\(witness.root)/slow.woff2); font-display: block }
                        p { font-family: Slow }</style>
                        """)
            ),
            ("an image only", Content(html: "<img src=/picture.svg>", more: ["picture.svg": Self.picture])),
            (
                "closed shadow DOM",
                Content(
                    html: "<div id=host></div>",
                    script: "host.attachShadow({mode: 'closed'}).innerHTML = '<p>in the shadow</p>';")
            ),
            ("iframe", Content(html: "<iframe src=/lazy.js></iframe>")),
            ("SVG", Content(html: "<svg width=90 height=90><circle cx=40 cy=40 r=30 /></svg>")),
            (
                "CSS background",
                Content(html: "<div style='height: 100vh; background: linear-gradient(#123, #456)'></div>")
            ),
            ("one word", Content(html: "Closed")),
            // A framework that mounts late, and a splash screen that fades in.
            ("late content", Content(script: "setTimeout(() => document.body.append('late'), 2500);")),
            (
                "fading in",
                Content(
                    html: "<p id=p>slow</p>", head: "<style>p { opacity: 0; transition: opacity 9s }</style>",
                    script: "setTimeout(() => { p.style.opacity = 1 }, 100);")
            ),
            ("meant to be blank", Content(script: "WebAppLocalServer.startupDidComplete({ blank: true });")),
        ]
    }

    private static let blanks: [(kind: String, content: Content)] = [
        ("an empty root", Content(html: "<div id=root></div>", style: "")),
        (
            "one color",
            Content(html: "<div style='height: 100vh; background: #eee'><main></main></div>", style: "background: #fff")
        ),
        (
            "hidden content",
            Content(
                html: """
                    <a style="position: absolute; width: 1px; height: 1px; overflow: hidden">Skip to content</a>
                    <p style="opacity: 0">faded</p><p style="visibility: hidden">hidden</p>
                    <p style="position: absolute; left: -9999px">outside</p><img src=/missing.png>
                    """)
        ),
    ]

    private func client(_ version: String, _ content: Content) -> DemoClient {
        var client = DemoClient.doing(
            version,
            "fetch('\(witness.root)/shown/' + version).catch(() => {});\n" + DemoClient.Scripts.update + content.script
                + "\n" + DemoClient.Scripts.confirm)
        (client.body, client.head, client.more) = ((content.html, content.style), content.head, content.more)
        return client
    }

    private func serve(_ engine: Engine, _ more: [String] = []) throws -> Serving {
        try kiosk.serve(
            timeout: "\(BusyMachine.seconds(10))s",
            [
                "--browser", "\(engine.program(in: folder)) {profile} {url}", "--heartbeat",
                "\(BusyMachine.seconds(60))s", "--csp", "connect-src \(witness.root); font-src \(witness.root)",
            ] + more)
    }

    private func end(_ serving: Serving) throws {
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
    }

    private func metric(_ name: String, _ serving: Serving) throws -> String? {
        try serving.ask("GET /__clientctl/v1/metrics").text.split(separator: "\n")
            .first { $0.hasPrefix("clientctl_\(name) ") }.map(String.init)
    }

    @Test(arguments: Engine.kiosks)
    func `a blank page that confirms its start is rolled back, and a page that shows anything stays`(engine: Engine)
        throws
    {
        try engine.require()
        try kiosk.install(client("1.0.0", Content(html: "good")))
        let serving = try serve(engine)
        try kiosk.wait(until: "v1.0.0", is: "good")
        for (number, page) in contents.enumerated() {
            let version = "1.\(number + 1).0"
            try kiosk.install(client(version, page.content))
            try kiosk.wait(until: "v\(version)", is: "good")
            #expect(try kiosk.status(of: "v\(version)").failures.isEmpty, "\(page.kind)")
        }
        #expect(try metric("blank_screens_total", serving) == "clientctl_blank_screens_total 0")
        for (number, page) in Self.blanks.enumerated() {
            let version = "2.\(number).0"
            try kiosk.install(client(version, page.content))
            try kiosk.wait(until: "v\(version)", is: "failed")
            let failures = try kiosk.status(of: "v\(version)").failures
            #expect(failures.map { $0["cause"] } == [.string("blankScreen")], "\(page.kind)")
        }
        // On a busy machine, a version can be tried once more before the next one is installed.
        let total = try metric("blank_screens_total", serving)?.split(separator: " ").last
        let count = try #require(total.flatMap { Int($0) })
        #expect((Self.blanks.count...2 * Self.blanks.count).contains(count))
        #expect(try serving.program.printed().errors.contains("was confirmed with a blank screen"))
        try end(serving)
    }

    @Test(arguments: Engine.kiosks.filter { $0.hiding != nil })
    func `a blank page in a hidden window is confirmed`(engine: Engine) throws {
        try engine.require()
        let (hide, _) = try #require(engine.hiding)
        let confirmHidden = """
            \(hide)
            setInterval(() => { if (document.visibilityState === 'hidden') { \(DemoClient.Scripts.confirm) } }, 200);

            """
        var blank = DemoClient.doing("1.0.0", confirmHidden)
        blank.body = ("", "")
        try kiosk.install(blank)
        let serving = try serve(engine)
        try kiosk.wait(until: "v1.0.0", is: "good")
        #expect(try kiosk.status(of: "v1.0.0").failures.isEmpty)
        try end(serving)
    }

    @Test(.needsBrowser)
    func `a confirmed client that becomes blank stays, is reported, and is reported again when it shows something`()
        throws
    {
        let toggling = """
            var mayShow = localStorage.started;
            localStorage.started = 'yes';
            if (!mayShow) { document.body.append('content'); }
            document.addEventListener('fill', () => document.body.append('content'));

            """
        var client = DemoClient.doing("1.0.0", toggling + DemoClient.Scripts.confirm)
        client.body = ("", "")
        try kiosk.install(client)
        let serving = try kiosk.serve()
        let page = try Browser.forAllTests().open(serving.root + "/", inWindow: true)
        try kiosk.wait(until: "v1.0.0", is: "good")
        try page.reload()
        try wait("no warning", serving) { try metric("blank_screens_total", serving)?.hasSuffix(" 1") == true }
        #expect(try kiosk.status(of: "v1.0.0").state == "good")
        _ = try page.evaluate("document.dispatchEvent(new Event('fill'))")
        try wait("no end of the warning", serving) {
            try serving.program.printed().errors.contains("shows something again")
        }
        try end(serving)
    }

    @Test(.needsBrowser, arguments: ["warn", "allow"])
    func `with --blank warn or allow, a blank page is confirmed`(consequence: String) throws {
        try kiosk.install(client("1.0.0", Self.blanks[0].content))
        let serving = try kiosk.serve(["--blank", consequence])
        let page = try Browser.forAllTests().open(serving.root + "/", inWindow: true)
        try kiosk.wait(until: "v1.0.0", is: "good")
        if consequence == "warn" {
            try wait("no warning", serving) { try metric("blank_screens_total", serving)?.hasSuffix(" 1") == true }
        }
        _ = page
        try end(serving)
    }

    private func wait(_ trouble: String, _ serving: Serving, until isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + Browser.patience
        while try !isMet() {
            try #require(
                ContinuousClock.now < deadline, "\(trouble): \((try? serving.program.printed().errors) ?? "")")
            poll(nil, 0, 20)
        }
    }
}
