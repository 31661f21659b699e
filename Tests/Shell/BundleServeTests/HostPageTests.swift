import BundleServe
import BundleTestTraits
import BundleTesting
import Testing

/// A page without files, and a script of the host in a client's page.
@Suite(.ownThread) struct HostPageTests {
    private static let page = IndexPage(
        before: Array("<html><head>".utf8), after: Array("</head>closed</html>".utf8), scriptSources: [])

    @Test func `shows a page of the host at every path, and serves no file`() async throws {
        let fixture = try await Fixture()
        let site = try Site(page: Self.page)
        fixture.host.with { $0.current = site }
        #expect(try fixture.ask("/", navigation).text.contains("closed"))
        #expect(try fixture.ask("/some/route", navigation).text.contains("closed"))
        #expect(try fixture.ask("/kiosk.html", navigation).text.contains("closed"))
        for path in ["/app.js", "/index.html.js", "/assets/style.css", "/plain", "/sub/", "/large.bin"] {
            #expect(try fixture.ask(path).status == 404, "\(path)")
        }
    }

    @Test func `adds a notice to its page and allows it in the policy`() async throws {
        let fixture = try await Fixture()
        let notice = ServerConfiguration.Bridge(script: Array("notice()".utf8), scriptSource: "'sha256-notice='")
        fixture.host.with {
            $0.nextPage = Page(id: "p", token: "t", site: $0.current, notice: notice)
        }
        let answer = try fixture.ask("/", navigation)
        #expect(answer.text.contains("<script>bridge()</script><script>notice()</script></head>app"))
        #expect(answer["Content-Security-Policy"]?.contains("'sha256-notice='") == true)
        fixture.host.with { $0.nextPage = nil }
        let without = try fixture.ask("/", navigation)
        #expect(!without.text.contains("notice()"))
        #expect(without["Content-Security-Policy"]?.contains("notice") == false)
    }
}
