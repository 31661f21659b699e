import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// `serve --once`: one check, one client and one verdict. The test sends the requests that a page would send.
@Suite(.ownThread) struct ServeOnceTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
    }

    private struct NotListening: Error { let errors: String }

    private func serve(_ more: [String] = []) throws -> (program: Program, port: Int) {
        let program = try Clientctl.start(
            [
                "serve", "--once", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--store",
                site.folder.file("store"), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--port", "0",
            ] + more)
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            if let address = try program.printed().output.firstMatch(of: /http:\/\/127\.0\.0\.1:([0-9]+)/),
                let port = Int(address.output.1)
            {
                return (program, port)
            }
            poll(nil, 0, 10)
        }
        throw NotListening(errors: try program.printed().errors)
    }

    /// Loads the page as a browser does. Returns its launch token.
    private func load(_ port: Int) throws -> String {
        let connection = try RawConnection(port: port)
        connection.send(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nSec-Fetch-Mode: navigate\r\nConnection: close\r\n\r\n")
        let page = String(decoding: try connection.receiveAnswer().body, as: UTF8.self)
        return String(try #require(page.firstMatch(of: /clientctl-token" content="([^"]+)"/), "\(page)").output.1)
    }

    /// Makes a call as the page with `token`.
    private func call(_ method: String, _ token: String, _ body: String, _ port: Int) throws {
        let connection = try RawConnection(port: port)
        connection.send(
            "POST /__clientctl/v1/\(method) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n"
                + "Origin: http://127.0.0.1:\(port)\r\nContent-Type: application/json\r\n"
                + "X-Client-Token: \(token)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)")
        #expect(try connection.receiveAnswer().status == 200)
    }

    private func status(_ program: Program) throws -> (status: Int32?, errors: String) {
        let ending = try #require(try program.wait(within: .seconds(60)), "it does not end")
        return (ending.status, ending.errors)
    }

    @Test func `serve --once ends with 0 when the client confirms its start`() throws {
        let (program, port) = try serve()
        try call("startupDidComplete", try load(port), "{}", port)
        let ending = try status(program)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.errors.contains("v1.0.0 confirmed its start"))
        // A confirmed client is shown without a trial.
        let (again, second) = try serve()
        _ = try load(second)
        #expect(try status(again).status == 0)
    }

    @Test func `serve --once ends with 40 when the client is rolled back`() throws {
        try site.folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        let (program, port) = try serve(["--seed", site.folder.file("seed"), "--startup-timeout", "3s"])
        try call("visibility", try load(port), #"{"page":"a","number":0}"#, port)
        let ending = try status(program)
        #expect(ending.status == 40, "\(ending.errors)")
        #expect(ending.errors.contains("v1.0.0 was rolled back to embedded"))
        let shown = try Clientctl.run(["status", "--store", site.folder.file("store")])
        #expect(shown.text.hasPrefix("running: nothing (v1.0.0, launched at "), "\(shown.text)")
    }

    @Test func `serve --once ends with 40 and blames no client when a page loads without reporting`() throws {
        try site.folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        let (program, port) = try serve(["--seed", site.folder.file("seed"), "--startup-timeout", "1s"])
        _ = try load(port)
        let ending = try status(program)
        #expect(ending.status == 40, "\(ending.errors)")
        #expect(ending.errors.contains("v1.0.0 was replaced by embedded without a verdict"))
        let shown = try Clientctl.run(["status", "--store", site.folder.file("store")])
        #expect(shown.text.contains("v1.0.0  staged"), "\(shown.text)")
    }

    @Test func `serve --once ends with the error of its check and shows nothing`() throws {
        let outcome = try Clientctl.run([
            "serve", "--once", "--channel", "\(site.feed)/channels/none.json", "--trust", site.pinned, "--store",
            site.folder.file("store"), "--shell-version", "1.5.0", "--port", "0", "--json",
        ])
        outcome.failed(78, "configInvalid")
    }

    @Test func `serve --once ends with 40 when no browser connects`() throws {
        let (program, _) = try serve(["--startup-timeout", "2s"])
        let ending = try status(program)
        #expect(ending.status == 40)
        // The limit for a browser is three startup timeouts.
        #expect(ending.errors.contains("no browser has loaded the page within 6.0 seconds"), "\(ending.errors)")
    }

    @Test func `serve --once ends with 40 when it is stopped`() throws {
        let (program, _) = try serve()
        program.send(SIGTERM)
        let ending = try status(program)
        #expect(ending.status == 40)
        #expect(ending.errors.contains("stopped before the client confirmed its start"))
    }
}
