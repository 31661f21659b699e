import BundleValues
import MeteorSource
import Testing

@Suite("RuntimeConfig") struct RuntimeConfigTests {
    static func page(_ json: String) -> [UInt8] {
        let encoded = PercentEncoding.encode(path: Array(json.utf8))
        return Array(
            "<html><script>__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"\(encoded)\"))</script>".utf8)
    }

    static func read(_ json: String) throws -> RuntimeConfig { try RuntimeConfig.read(page: page(json)) }

    static func read(encoded: String) throws -> RuntimeConfig {
        try RuntimeConfig.read(
            page: Array("__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"\(encoded)\"))".utf8))
    }

    @Test func `SW-14: reads server, application and version`() throws {
        let config = try Self.read(
            "{\"ROOT_URL\":\"http://mock.test/sub/\",\"ROOT_URL_PATH_PREFIX\":\"/sub\",\"appId\":\"test-app-id\","
                + "\"DDP_DEFAULT_CONNECTION_URL\":\"https://ddp\",\"autoupdateVersionCordova\":\"version1\"}")
        #expect(config.rootURL == "http://mock.test/sub/")
        #expect(config.appId == "test-app-id")
        #expect(config.ddpURL == "https://ddp")
        #expect(config.pageVersion == "version1")
    }

    @Test func `reads the golden text and keeps a plus sign`() throws {
        let golden =
            "%7B%22ROOT_URL%22%3A%22http%3A%2F%2Flocalhost%3A3000%2F%22%2C%22appId%22%3A%22abc%22%2C%22note%22%3A%22a%20"
            + "%5C%22q%5C%22%20%2B%20%F0%9F%92%BB%22%7D"
        #expect(try Self.read(encoded: golden) == RuntimeConfig(rootURL: "http://localhost:3000/", appId: "abc"))
        #expect(try Self.read(encoded: "{%22appId%22:%22a+b%2Bc%F0%9F%92%BB'(~*!)%22}").appId == "a+b+c💻'(~*!)")
    }

    @Test func `N-01: prefers the version of the architecture to that of older servers`() throws {
        let versions =
            "\"autoupdate\":{\"x\":1.5,\"versions\":{\"web.browser\":{\"version\":\"b\"},"
            + "\"web.cordova\":{\"versionRefreshable\":\"r\",\"version\":\"c\"}}}"
        #expect(try Self.read("{\(versions),\"autoupdateVersionCordova\":\"old\"}").pageVersion == "c")
        #expect(try Self.read("{\"autoupdateVersionCordova\":\"old\",\(versions)}").pageVersion == "c")
        let page = Self.page("{\(versions)}")
        #expect(try RuntimeConfig.read(page: page, architecture: "web.browser").pageVersion == "b")
        #expect(try RuntimeConfig.read(page: page, architecture: "web.other").pageVersion == nil)
    }

    @Test(arguments: ["7", "null", "{}", "[]", "{\"versions\":[]}", "{\"versions\":{\"web.cordova\":\"c\"}}"])
    func `uses the version of older servers if the other is invalid`(autoupdate: String) throws {
        let config = try Self.read("{\"autoupdate\":\(autoupdate),\"autoupdateVersionCordova\":\"old\"}")
        #expect(config.pageVersion == "old")
    }

    @Test func `ignores settings and members of other types`() throws {
        let config = try Self.read(
            "{\"PUBLIC_SETTINGS\":{\"a\":1.5e-3,\"b\":[{\"c\":-0}]},\"isModern\":false,\"ROOT_URL\":7,\"appId\":\"\"}")
        #expect(config == RuntimeConfig())
    }

    @Test func `accepts repetitions of unknown members`() throws {
        let text = "{\"x\":1,\"x\":2,\"appId\":\"a\",\"autoupdate\":{\"y\":1,\"y\":2,\"appId\":\"b\"}}"
        #expect(try Self.read(text).appId == "a")
    }

    @Test func `uses the first assignment`() throws {
        let page = Self.page("{\"appId\":\"first\"}") + Self.page("{\"appId\":\"second\"}")
        #expect(try RuntimeConfig.read(page: page).appId == "first")
    }

    @Test(arguments: [
        "<html></html>", "", "__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"",
        "__meteor_runtime_config__ = JSON.parse(decodeURIComponent(\"%7B%7D",
        "__meteor_runtime_config__=JSON.parse(decodeURIComponent(\"%7B%7D\"))",
        "__meteor_runtime_config__ = {\"appId\":\"a\"}",
    ])
    func `SW-15: rejects a page without a configuration`(page: String) {
        let error = #expect(throws: PageRefusal.self) { try RuntimeConfig.read(page: Array(page.utf8)) }
        #expect(error?.failure.code == .unsuitableBundle)
        #expect(error?.failure.message.contains("Couldn't load runtime config from index file") == true)
    }

    @Test(arguments: [
        "", "%7B", "%5B%5D", "%22x%22", "7", "%7B%7D%7B%7D", "%", "%7", "%zz", "{%22appId%22:%22%FF%22}",
        "{%22appId%22:%22%zz%22}", "{%22appId%22:%22%2%22}",
        "{%22appId%22:%22%ED%A0%80%22}", "{%22appId%22:1,%22appId%22:2}",
        "{%22autoupdate%22:{%22versions%22:{},%22versions%22:{}}}",
    ])
    func `rejects a text that is invalid or ambiguous`(encoded: String) {
        #expect(throws: PageRefusal.self) { try Self.read(encoded: encoded) }
    }

    @Test func `rejects a page that is not UTF-8`() {
        #expect(throws: PageRefusal.noRuntimeConfig("the page is not UTF-8")) {
            try RuntimeConfig.read(page: Self.page("{}") + [0xFF])
        }
    }
}
