import BundleValues
import MeteorSource
import Testing

@Suite("MeteorURLs") struct MeteorURLsTests {
    private static func urls(_ root: String, _ architecture: String = "web.cordova") throws -> MeteorURLs {
        try MeteorURLs(rootURL: FetchURL(parsing: root), architecture: architecture)
    }

    @Test(arguments: [
        ("https://h", "https://h/__cordova/"), ("https://h/", "https://h/__cordova/"),
        ("https://h/sub", "https://h/sub/__cordova/"), ("https://h/sub/", "https://h/sub/__cordova/"),
        ("https://h/a/b//", "https://h/a/b/__cordova/"), ("http://h:3000/sub?x=/y#z", "http://h:3000/sub/__cordova/"),
        ("HTTP://H:80", "http://h:80/__cordova/"), ("http://[::1]:3000/", "http://[::1]:3000/__cordova/"),
        ("https://h/a%20b", "https://h/a%20b/__cordova/"),
    ])
    func `N-16: keeps the path of the root URL`(root: String, base: String) throws {
        let urls = try Self.urls(root)
        #expect(urls.index.description == base)
        #expect(urls.manifest.description == base + "manifest.json")
        #expect(try urls.asset("/").description == base)
        #expect(try urls.asset("/app/app.js").description == base + "app/app.js?meteor_dont_serve_index=true")
    }

    @Test(arguments: [
        ("/__cordova/app/a.js", "__cordova/app/a.js"), ("/a b@2x.png", "a%20b%402x.png"), ("/é.js", "%C3%A9.js"),
        ("/100%25", "100%2525"), ("/a+b&c=d;e", "a%2Bb%26c%3Dd%3Be"), ("a.js", "a.js"),
    ])
    func `encodes the paths of a manifest`(path: String, encoded: String) throws {
        let url = try Self.urls("https://h").asset(path)
        #expect(url.description == "https://h/__cordova/\(encoded)?meteor_dont_serve_index=true")
    }

    @Test func `uses the architecture`() throws {
        #expect(try Self.urls("https://h", "web.browser.legacy").index.description == "https://h/__browser.legacy/")
        #expect(try Self.urls("https://h", "desktop").index.description == "https://h/__desktop/")
    }

    @Test(arguments: ["https://h/__cordova", "https://h/sub/__cordova/", "http://h:3000/__cordova/manifest.json"])
    func `rejects a URL below the root URL and names the end of the root`(url: String) throws {
        let error = try #require(throws: FetchError.self) { try Self.urls(url) }
        #expect("\(error)".contains("it is not the server's ROOT_URL, which ends before /__cordova"), "\(error)")
        #expect(throws: Never.self) { try Self.urls(url, "web.browser") }
    }

    @Test func `rejects a file URL`() throws {
        #expect(throws: FetchError.self) { try Self.urls("file:///srv") }
    }
}
