import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Real web clients, downloaded by `Scripts/lib/real-clients`, then published, installed and shown by `clientctl
/// serve`.
/// | Their own servers do not exist in the test, so calls to them fail. Each client lists these calls.
@Suite(.ownThread, .needsBrowser) struct RealPagesTests {
    /// A client and its requirements.
    struct Client: Sendable, CustomTestStringConvertible {
        let name: String
        /// `sed` replacements in `index.html` for values that its own server would fill in.
        var template: [String] = []
        /// The sources that `--csp` has to allow.
        var policy = ""
        /// A script that runs at the client's origin first, such as a login.
        var preparation = ""
        /// Path prefixes that its own server would answer.
        let backend: [String]
        /// Error messages about the missing server.
        var pageErrors: [String] = []
        /// Whether a debug build takes more than a minute for the number of files.
        var isLarge = false
        /// An expression that is true once the client has started.
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
            name: "streamlit-1.40.1", backend: ["/_stcore/"], pageErrors: ["Connection failed with status 404"],
            started: "document.querySelector('#root > *')"),
        Client(
            name: "jupyterlab-4.3.3",
            template: [
                #"s|{{ page_config_full \| tojson }}|{"baseUrl":"/","wsUrl":"","fullStaticUrl":"","appUrl":"/lab","federated_extensions":[]}|"#,
                #"s|<link rel="stylesheet" href="{{ base_url . escape }}custom/custom.css">||"#,
                "s/{{page_config.fullStaticUrl}}//g", "s/{{ base_url | escape }}/\\//g", "s/{%[^%]*%}//g",
                "s/{#[^#]*#}//g",
            ], backend: ["/api/", "/lab/", "/static/favicons/"],
            pageErrors: ["Invalid response: 404", "failed to activate", "/api/events/subscribe' failed"],
            started: "document.querySelector('#main, .jp-Dialog, #jupyterlab-splash')"),
        Client(
            name: "home-assistant-20250109.1",
            template: ["s/{{ theme_color }}/#18bcf2/g", "s/{%-[^%]*-%}//g", "/{{ extra_/d"],
            // Without a token, the client redirects to the login page of its server, which would be the client itself.
            preparation: """
                localStorage.hassTokens = JSON.stringify({
                  access_token: 'a', token_type: 'Bearer', expires_in: 1800, refresh_token: 'b',
                  hassUrl: location.origin, clientId: location.origin + '/', expires: Date.now() + 1e9
                });
                null
                """,
            backend: ["/auth/", "/api/", "/manifest.json"],
            // 1 is ERR_CANNOT_CONNECT of the client's connection library.
            pageErrors: ["/api/websocket' failed", "Uncaught (in promise) 1"], isLarge: true,
            started: "document.querySelector('home-assistant')?.shadowRoot || document.querySelector('ha-init-page')"),
    ]

    /// `REAL_CLIENTS=all Scripts/test --filter RealPagesTests` includes large clients.
    static let cached = clients.filter { $0.isCached && (!$0.isLarge || getenv("REAL_CLIENTS") != nil) }

    @Test(
        .enabled(if: !cached.isEmpty, "no real client in the cache: Scripts/lib/real-clients fetches them"),
        arguments: cached)
    func `serve shows a real client without its server`(client: Client) throws {
        let kiosk = try Kiosk()
        let source = kiosk.folder.file("web")
        try Command.run(["cp", "-r", client.folder, source])
        if !client.template.isEmpty {
            try Command.run(["sed", "-i"] + client.template.flatMap { ["-e", $0] } + ["\(source)/index.html"])
        }
        try kiosk.publish(source, as: "1.0.0")
        try kiosk.install()
        // The client never confirms its start, so the timeout is long.
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
        // Calls to the missing server may be repeated without end.
        try page.wait(for: "every file is answered") { $0.requests.filter(isFile).allSatisfy(isAnswered) }
        _ = try ScreenshotFolder.keep(page, as: "real-\(client.name)")

        // A browser may request the icon later.
        let shown = page.requests.filter { isFile($0) && isAnswered($0) }
        print("serve: \(client.name): \(shown.count) files shown")
        #expect(shown.count > 3)
        #expect(shown.filter { ![200, 304].contains($0.status) && !$0.isFromCache } == [])

        // Browsers request the icon themselves.
        let elsewhere = client.backend + ["/__clientctl/", "/clients/", "/favicon.ico"]
        let others = page.requests.filter { !isFile($0) && !$0.url.hasPrefix("data:") && !$0.url.hasPrefix("blob:") }
        #expect(others.filter { request in !elsewhere.contains { path(request)?.hasPrefix($0) ?? false } } == [])

        let errors = page.console.filter { message in
            let isOfBackend = elsewhere.contains { message.url.hasPrefix(serving.root + $0) }
            return message.level == "error" && !isOfBackend && !client.pageErrors.contains(where: message.text.contains)
        }
        #expect(errors == [])
        #expect(page.console.filter { $0.text.contains("Content Security Policy") } == [])
    }
}
