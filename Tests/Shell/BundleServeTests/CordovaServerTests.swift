import BundleCore
import BundleDisk
import BundleServe
import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

/// The cases of Meteor's suite about its local server (METEOR section 8.3) over HTTP, by their numbers.
@Suite(.ownThread) struct CordovaServerTests {
    private static let hash = "60cbfcbf82c52e36be1ccaef11b38ec1cc844103"

    private func fixture(_ fallback: ServerConfiguration.Fallback = .everything) async throws -> Fixture {
        let fixture = try await Fixture { $0.fallback = fallback }
        let site = try CordovaClient.site(below: fixture.folder)
        fixture.host.with { $0.current = site }
        return fixture
    }

    private func expectIndex(_ answer: RawResponse) {
        #expect(answer.status == 200)
        #expect(answer["Content-Type"] == "text/html; charset=utf-8")
        #expect(answer.text.contains("<title>mobileapp</title>"))
    }

    // MARK: Files

    @Test func `CW-01: the page has WebAppLocalServer`() async throws {
        let text = try await fixture().ask("/", navigation).text
        #expect(text.contains("window.WebAppLocalServer = {"))
        #expect(text.contains(String(decoding: ShimInjector.shim, as: UTF8.self)))
    }

    @Test func `CW-02: serves the index page at the root`() async throws {
        expectIndex(try await fixture().ask("/"))
    }

    @Test func `CW-03: serves a file at its URL, and not at its path`() async throws {
        let fixture = try await fixture(.navigation)
        #expect(try fixture.ask("/some-file").text == "some-file\n")
        #expect(try fixture.ask("/app/some-file").status == 404)
    }

    @Test func `CW-04: serves files of Cordova besides those of the client`() async throws {
        let fixture = try await fixture()
        let plugins = try fixture.ask("/cordova_plugins.js")
        #expect(plugins.status == 200)
        #expect(plugins.text == "// cordova_plugins.js\n")
        let cordova = try fixture.ask("/cordova.js")
        #expect(cordova["Content-Type"] == "text/javascript; charset=utf-8")
        #expect(cordova.text.contains("deviceready"))
    }

    @Test func `CW-05: serves the index page at every other path`() async throws {
        expectIndex(try await fixture().ask("/anything"))
        let strict = try await fixture(.navigation)
        expectIndex(try strict.ask("/anything", navigation))
        #expect(try strict.ask("/anything").status == 404)
    }

    @Test func `CW-06: does not serve the paths of the bundle`() async throws {
        expectIndex(try await fixture().ask("/application/packages/meteor.js"))
        let strict = try await fixture(.navigation)
        // A page instead of a script would be run as one (P02); a window shows it.
        #expect(try strict.ask("/application/packages/meteor.js", ["Accept: text/html"]).status == 404)
        expectIndex(try strict.ask("/application/packages/meteor.js", navigation))
    }

    @Test(arguments: [ServerConfiguration.Fallback.everything, .navigation])
    func `CW-07: does not serve a file that the manifest does not list`(
        fallback: ServerConfiguration.Fallback
    ) async throws {
        expectIndex(try await fixture(fallback).ask("/not-in-manifest", navigation))
    }

    @Test(arguments: [ServerConfiguration.Fallback.everything, .navigation])
    func `CW-08: does not serve an unlisted file by its path in the bundle`(fallback: ServerConfiguration.Fallback)
        async throws
    {
        expectIndex(try await fixture(fallback).ask("/application/not-in-manifest", navigation))
    }

    @Test(arguments: [ServerConfiguration.Fallback.everything, .navigation])
    func `CW-09: responds with 404 for a missing icon`(fallback: ServerConfiguration.Fallback) async throws {
        let fixture = try await fixture(fallback)
        #expect(try fixture.ask("/favicon.ico", navigation).status == 404)
        #expect(try fixture.ask("/local-filesystem/etc/passwd", ["Accept: text/plain"]).status == 404)
        #expect(try fixture.ask("/__clientctl/settings", navigation).status == 404)
    }

    // MARK: Caching

    @Test func `CW-10: begins the entity tag with the hash of the manifest`() async throws {
        #expect(try await fixture().ask("/packages/meteor.js")["ETag"]?.hasPrefix("\"\(Self.hash)-sha256-") == true)
    }

    @Test func `CW-11: revalidates a cacheable file at a URL with a query`() async throws {
        let fixture = try await fixture()
        for query in ["9418708e9519b747d9d631d85ea85b90c0b5c70c", "hash=\(Self.hash)", "meteor_js_resource=true"] {
            let answer = try fixture.ask("/packages/meteor.js?\(query)")
            #expect(answer["Cache-Control"] == "no-cache", "\(query)")
            #expect(answer.text == "// packages/meteor.js\n")
        }
    }

    @Test func `CW-12: revalidates a file at a URL without a query`() async throws {
        let fixture = try await fixture()
        #expect(try fixture.ask("/packages/meteor.js")["Cache-Control"] == "no-cache")
        #expect(try fixture.ask("/packages/meteor.js?")["Cache-Control"] == "no-cache")
    }

    @Test func `CW-13: sends parts of files`() async throws {
        #expect(try await fixture().ask("/some-video.mp4")["Accept-Ranges"] == "bytes")
    }

    // MARK: Source maps

    @Test func `CW-14: sends the URL of a script's source map`() async throws {
        let fixture = try await fixture()
        let map = "/app/64cbd73270545cc23700db0daa0edcf66dc4eb82.map"
        #expect(try fixture.ask("/app/template.mobileapp.js")["X-SourceMap"] == map)
        #expect(try fixture.ask("/app/template.mobileapp.js", ["Range: bytes=0-1"])["X-SourceMap"] == map)
        #expect(try fixture.ask("/some-javascript.js")["X-SourceMap"] == nil)
    }

    @Test func `CW-15: serves a source map`() async throws {
        let answer = try await fixture().ask("/app/64cbd73270545cc23700db0daa0edcf66dc4eb82.map")
        #expect(answer.status == 200)
        #expect(answer["Cache-Control"] == "no-cache")
        #expect(answer["Content-Type"] == "application/json; charset=utf-8")
        #expect(answer.text.contains(#""sources":["app/template.mobileapp.js"]"#))
    }

    // MARK: The whole table

    private static let bundle = CordovaServerCase.Bundle(
        hash: { path in CordovaClient.entries.first { $0.path == path }?.hash ?? "" },
        sourceMapURL: { path in CordovaClient.entries.first { $0.path == path }?.sourceMapURL ?? "" },
        content: { path in CordovaClient.entries.first { $0.path == path }?.content ?? Array("// \(path)\n".utf8) })

    @Test(arguments: CordovaServerCase.all)
    func `CW-01 to CW-26: serves each file with its type, its bytes and its tag`(
        one: CordovaServerCase
    ) async throws {
        let answer = try await fixture().ask(one.target(in: Self.bundle))
        #expect(try one.findings(in: answer, of: Self.bundle) == [], "\(one.number)")
        if answer.status == 200 { expectCommonFields(answer) }
    }

    @Test func `serves a font with its registered type`() async throws {
        #expect(try await fixture().ask("/some-font.woff")["Content-Type"] == "font/woff")
    }

    // MARK: Conditions

    @Test func `N-22: compares an unchanged file by its tag, and ignores dates`() async throws {
        let fixture = try await fixture()
        let tag = try #require(try fixture.ask("/packages/meteor.js")["ETag"])
        let old = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"
        for query in ["", "?1"] {
            let target = "/packages/meteor.js\(query)"
            let same = try fixture.ask(target, ["If-None-Match: \(tag)"])
            #expect(same.status == 304)
            #expect(same["ETag"] == tag)
            #expect(same["Cache-Control"] == "no-cache")
            #expect(same["X-SourceMap"] == nil)
            #expect(try fixture.ask(target, ["If-None-Match: W/\(tag)"]).status == 304)
            // Without quotes, as Cordova's server sent it, a tag is invalid. A tag takes precedence over a date.
            #expect(try fixture.ask(target, ["If-None-Match: \(Self.hash)"]).status == 200)
            #expect(try fixture.ask(target, ["If-None-Match: \"other\"", old]).status == 200)
            #expect(try fixture.ask(target, [old]).status == 200)
        }
    }

    @Test func `N-22: sends a part only of the file with the requested tag`() async throws {
        let fixture = try await fixture()
        let tag = try #require(try fixture.ask("/packages/meteor.js")["ETag"])
        let part = ["Range: bytes=3-10"]
        let answer = try fixture.ask("/packages/meteor.js", part + ["If-Range: \(tag)"])
        #expect(answer.status == 206)
        #expect(answer.text == "packages")
        #expect(answer["Content-Range"] == "bytes 3-10/22")
        #expect(answer["ETag"] == tag)
        for other in ["\"other\"", "W/\(tag)", "\"\(Self.hash)\"", Self.hash] {
            #expect(try fixture.ask("/packages/meteor.js", part + ["If-Range: \(other)"]).status == 200)
        }
        let beyond = try fixture.ask("/packages/meteor.js?1", ["Range: bytes=22-"])
        #expect(beyond.status == 416)
        #expect(beyond["Content-Range"] == "bytes */22")
    }

    @Test(arguments: ["/packages/meteor.js", "/packages/meteor.js?1", "/some-text.txt"])
    func `N-22: responds to HEAD with the fields of GET`(target: String) async throws {
        let fixture = try await fixture()
        let get = try fixture.ask(target)
        let head = try fixture.ask(target, method: "HEAD")
        #expect(head.status == 200)
        #expect(head.body == [])
        #expect(head.fields.map { "\($0.name): \($0.value)" } == get.fields.map { "\($0.name): \($0.value)" })
    }

    @Test(arguments: ["/%2e%2e%2fapplication/index.html", "/%2e%2e/x", "/packages/%2e%2e%2f%2e%2e%2fprogram.json"])
    func `N-22: rejects an encoded traversal, and shows a window the index page`(target: String) async throws {
        let fixture = try await fixture()
        #expect(try fixture.ask(target).status == 400)
        expectIndex(try fixture.ask(target, navigation))
    }
}
