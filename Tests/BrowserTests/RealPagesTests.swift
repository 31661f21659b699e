import BundleCore
import BundleTesting
import Glibc
import Testing

/// Real web clients, as `Scripts/real-clients` fetches them, published, installed and shown by `clientctl serve`.
///
/// Their own servers are not there: what only those could answer fails, and that is named client by client.
@Suite(.needsBrowser, .serialized) struct RealPagesTests {
    /// One client and what it needs.
    struct Client: Sendable, CustomTestStringConvertible {
        let name: String
        /// Replacements in its `index.html`, by `sed`, where its own server would fill it in.
        var template: [String] = []
        /// What `--csp` has to allow.
        var policy = ""
        /// Addresses that its own server answers.
        let backend: [String]
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
        Client(name: "streamlit-1.40.1", backend: ["/_stcore/"], started: "document.querySelector('#root > *')"),
        Client(
            name: "jupyterlab-4.3.3",
            template: [
                #"s|{{ page_config_full \| tojson }}|{"baseUrl":"/","wsUrl":"","fullStaticUrl":"","appUrl":"/lab"}|"#,
                "s/{{page_config.fullStaticUrl}}//g", "s/{{ base_url | escape }}/\\//g", "s/{%[^%]*%}//g", "s/{#[^#]*#}//g",
            ], backend: ["/api/", "/lab/"], started: "document.querySelector('#main, .jp-Dialog, #jupyterlab-splash')"),
        Client(
            name: "home-assistant-20250109.1",
            template: ["s/{{ theme_color }}/#18bcf2/g", "s/{%-[^%]*-%}//g", "/{{ extra_/d"],
            backend: ["/auth/", "/api/", "/manifest.json"],
            started: "document.querySelector('home-assistant')?.shadowRoot || location.pathname !== '/'"),
    ]

    static let cached = clients.filter(\.isCached)

    @Test(.enabled(if: !cached.isEmpty, "no real client in the cache: Scripts/real-clients fetches them"), arguments: cached)
    func `shows a real client without its server`(client: Client) throws {
        let kiosk = try Kiosk()
        let source = kiosk.folder.file("web")
        try Command.run(["cp", "-r", client.folder, source])
        if !client.template.isEmpty {
            try Command.run(["sed", "-i"] + client.template.flatMap { ["-e", $0] } + ["\(source)/index.html"])
        }
        try kiosk.publish(source, as: "1.0.0")
        try kiosk.install()
        let serving = try kiosk.serve(client.policy.isEmpty ? [] : ["--csp", client.policy])
        let page = try Browser.sharedNow().open(serving.root + "/", within: .seconds(60))
        defer {
            for message in page.console {
                print("serve: \(client.name): \(message.origin) \(message.level) \(message.url): \(message.text.prefix(600))")
            }
        }
        try page.wait(until: client.started, within: .seconds(20))
        try page.wait(for: "every request is answered", within: .seconds(20)) {
            $0.requests.allSatisfy { $0.status != nil || $0.failure != nil }
        }
        _ = try ScreenshotFolder.keep(page, as: "real-\(client.name)")

        let files = try TreeSnapshot(of: source).files
        var shown = 0
        for request in page.requests where request.url.hasPrefix(serving.root + "/") {
            let path = request.url.dropFirst(serving.root.count + 1).prefix { $0 != "?" && $0 != "#" }
            if files[String(path)] != nil || path.isEmpty {
                shown += 1
                #expect([200, 304].contains(request.status) || request.isFromCache, "\(request)")
            } else {
                print("serve: \(client.name): not a file: \(request.method) /\(path): \(request.status ?? 0) \(request.failure ?? "")")
            }
        }
        print("serve: \(client.name): \(shown) files shown")
        #expect(shown > 3)
        #expect(page.console.filter { $0.text.contains("Content Security Policy") } == [])
    }
}
