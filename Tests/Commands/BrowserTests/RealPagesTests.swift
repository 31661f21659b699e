import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Real web clients, as `Scripts/lib/real-clients` fetches them, published, installed and shown by `clientctl serve`.
///
/// Their own servers are not there: what only those could answer fails, and that is named client by client.
@Suite(.ownThread, .needsBrowser) struct RealPagesTests {
    /// One client and what it needs.
    struct Client: Sendable, CustomTestStringConvertible {
        let name: String
        /// Replacements in its `index.html`, by `sed`, where its own server would fill it in.
        var template: [String] = []
        /// What `--csp` has to allow.
        var policy = ""
        /// What is done at its origin before it is shown, such as signing in.
        var preparation = ""
        /// Addresses that its own server answers.
        let backend: [String]
        /// What it says of a server that is not there.
        var complaints: [String] = []
        /// Whether it has so many files that a debug build takes more than a minute for them.
        var isLarge = false
        /// What is on the page once it has started.
        let started: String

        var testDescription: String { name }
        var folder: String { "\(RealPagesTests.cache)/\(name)" }
        var isCached: Bool { access("\(folder)/index.html", R_OK) == 0 }
    }

    static let cache =
        getenv("SWAP_CLIENTS_CACHE").map { String(cString: $0) }
        ?? getenv("HOME").map { String(cString: $0) + "/.cache/swap-clients" } ?? ""

    static let clients = [
        Client(
            name: "streamlit-1.40.1", backend: ["/_stcore/"], complaints: ["Connection failed with status 404"],
            started: "document.querySelector('#root > *')"),
        Client(
            name: "jupyterlab-4.3.3",
            template: [
                #"s|{{ page_config_full \| tojson }}|{"baseUrl":"/","wsUrl":"","fullStaticUrl":"","appUrl":"/lab","federated_extensions":[]}|"#,
                #"s|<link rel="stylesheet" href="{{ base_url . escape }}custom/custom.css">||"#,
                "s/{{page_config.fullStaticUrl}}//g", "s/{{ base_url | escape }}/\\//g", "s/{%[^%]*%}//g",
                "s/{#[^#]*#}//g",
            ], backend: ["/api/", "/lab/", "/static/favicons/"],
            complaints: ["Invalid response: 404", "failed to activate", "/api/events/subscribe' failed"],
            started: "document.querySelector('#main, .jp-Dialog, #jupyterlab-splash')"),
        Client(
            name: "home-assistant-20250109.1",
            template: ["s/{{ theme_color }}/#18bcf2/g", "s/{%-[^%]*-%}//g", "/{{ extra_/d"],
            // Without a token it goes to its server's login page, which here is itself again.
            preparation: """
                localStorage.hassTokens = JSON.stringify({
                  access_token: 'a', token_type: 'Bearer', expires_in: 1800, refresh_token: 'b',
                  hassUrl: location.origin, clientId: location.origin + '/', expires: Date.now() + 1e9
                });
                null
                """,
            backend: ["/auth/", "/api/", "/manifest.json"],
            // 1 is ERR_CANNOT_CONNECT of its connection library.
            complaints: ["/api/websocket' failed", "Uncaught (in promise) 1"], isLarge: true,
            started: "document.querySelector('home-assistant')?.shadowRoot || document.querySelector('ha-init-page')"),
    ]

    /// `REAL_CLIENTS=all Scripts/test --filter RealPagesTests` shows large ones, too.
    static let cached = clients.filter { $0.isCached && (!$0.isLarge || getenv("REAL_CLIENTS") != nil) }

    @Test(
        .enabled(if: !cached.isEmpty, "no real client in the cache: Scripts/lib/real-clients fetches them"),
        arguments: cached)
    func `shows a real client without its server`(client: Client) throws {
        let kiosk = try Kiosk()
        let source = kiosk.folder.file("web")
        try Command.run(["cp", "-r", client.folder, source])
        if !client.template.isEmpty {
            try Command.run(["sed", "-i"] + client.template.flatMap { ["-e", $0] } + ["\(source)/index.html"])
        }
        try kiosk.publish(source, as: "1.0.0")
        try kiosk.install()
        // It never confirms, and is to stay on the screen for as long as that takes.
        let serving = try kiosk.serve(timeout: "600s", client.policy.isEmpty ? [] : ["--csp", client.policy])
        let browser = try Browser.forAllTests()
        let page = try browser.open(serving.root + "/clients/", inWindow: true)
        if !client.preparation.isEmpty { try page.evaluate(client.preparation) }
        try page.navigate(serving.root + "/", within: .seconds(300))
        try page.wait(until: client.started, within: .seconds(300))
        let files = try TreeSnapshot(of: source).files
        func path(_ request: PageRequest) -> String? {
            guard request.url.hasPrefix(serving.root + "/") else { return nil }
            let path = request.url.dropFirst(serving.root.count).prefix { $0 != "?" && $0 != "#" }
            return path == "/" ? "/index.html" : String(path)
        }
        func isFile(_ request: PageRequest) -> Bool {
            path(request).map { files[String($0.dropFirst())] != nil } ?? false
        }
        func isAnswered(_ request: PageRequest) -> Bool { request.status != nil || request.failure != nil }
        // Its own calls to a server may go on for ever.
        try page.wait(for: "every file is answered") { $0.requests.filter(isFile).allSatisfy(isAnswered) }
        _ = try ScreenshotFolder.keep(page, as: "real-\(client.name)")

        // A browser may want the icon later.
        let shown = page.requests.filter { isFile($0) && isAnswered($0) }
        print("serve: \(client.name): \(shown.count) files shown")
        #expect(shown.count > 3)
        #expect(shown.filter { ![200, 304].contains($0.status) && !$0.isFromCache } == [])

        // The icon is the browser's own wish.
        let elsewhere = client.backend + ["/__clientctl/", "/clients/", "/favicon.ico"]
        let others = page.requests.filter { !isFile($0) && !$0.url.hasPrefix("data:") && !$0.url.hasPrefix("blob:") }
        #expect(others.filter { request in !elsewhere.contains { path(request)?.hasPrefix($0) ?? false } } == [])

        let errors = page.console.filter { message in
            let isOfBackend = elsewhere.contains { message.url.hasPrefix(serving.root + $0) }
            return message.level == "error" && !isOfBackend && !client.complaints.contains(where: message.text.contains)
        }
        #expect(errors == [])
        #expect(page.console.filter { $0.text.contains("Content Security Policy") } == [])
    }
}
