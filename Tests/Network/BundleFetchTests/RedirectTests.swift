import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import BundleShell
import Testing

@Suite(.ownThread) struct RedirectTests {
    let fetcher = CurlFetcher(options: FetchOptions(userAgent: "t"))

    @Test(arguments: [301, 302, 303, 307, 308])
    func `follows a redirect and drops its body`(status: Int) async throws {
        let server = try LoopbackServer(["/a/b": .redirect(to: "../c?d#e", status: status), "/c?d": Route([7])])
        let fetched = await Fetched(fetcher, try server.url("/a/b"))
        #expect(fetched.head?.effectiveURL == (try server.url("/c?d#e")))
        #expect(fetched.sink.heads.count == 1)
        #expect(fetched.sink.bytes == [7])
        #expect(server.connectionCount == 1)
    }

    @Test func `follows at most five redirects`() async throws {
        let server = try LoopbackServer(["/0": Route([7])])
        for index in 1...6 { server.set("/\(index)", .redirect(to: "/\(index - 1)")) }
        #expect(await Fetched(fetcher, try server.url("/5")).sink.bytes == [7])
        let fetched = await Fetched(fetcher, try server.url("/6"))
        guard case .redirectRefused(let from, let to, let reason) = fetched.fetchError else {
            Issue.record("\(String(describing: fetched.error))")
            return
        }
        #expect(from == (try server.url("/1")))
        #expect(to == "/0")
        #expect(reason.contains("5 allowed"))
    }

    @Test(arguments: [
        ("file:///etc/hostname", "http may not lead to file"), ("ftp://h/x", "its scheme"),
        ("http://user:pw@127.0.0.1/", "user or password"), ("http://h/a b", "percent-encoded"),
        ("http://", "host is missing"),
    ])
    func `rejects a redirect to an invalid URL`(location: String, reason: String) async throws {
        let server = try LoopbackServer(["/a": .redirect(to: location)])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        guard case .redirectRefused(_, let to, let found) = fetched.fetchError else {
            Issue.record("\(String(describing: fetched.error))")
            return
        }
        #expect(found.contains(reason))
        #expect(!to.contains("pw"))
    }

    @Test func `reports the status of a redirect without a location`() async throws {
        let server = try LoopbackServer(["/a": Route([], status: 302)])
        let fetched = await Fetched(fetcher, try server.url("/a"))
        #expect(fetched.fetchError == .httpStatus(302, try server.url("/a"), retryAfter: nil))
    }

    @Test func `follows a redirect with an endless body`() async throws {
        let redirect = Route.redirect(to: "/b").with { $0.body = .endless }
        let server = try LoopbackServer(["/a": redirect, "/b": Route([7])])
        #expect(await Fetched(fetcher, try server.url("/a")).sink.bytes == [7])
    }
}

@Suite(.ownThread) struct BearerCredentialTests {
    func fetcher(for server: LoopbackServer) throws -> CurlFetcher {
        let credential = try BearerCredential(
            tokenFile: Array(" abc.DEF-1~+/=\n".utf8), origin: try server.url("/").origin)
        var options = FetchOptions(userAgent: "t")
        options.credential = credential
        return CurlFetcher(options: options)
    }

    @Test func `sends the token to its origin after a redirect`() async throws {
        let server = try LoopbackServer(["/a": .redirect(to: "/b"), "/b": Route([7])])
        _ = await Fetched(try fetcher(for: server), try server.url("/a"))
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer abc.DEF-1~+/=", "Bearer abc.DEF-1~+/="])
    }

    @Test func `does not send the token to another origin`() async throws {
        let other = try LoopbackServer(["/b": Route([7])])
        let server = try LoopbackServer(["/a": .redirect(to: try other.url("/b").description)])
        let fetcher = try fetcher(for: server)
        #expect(await Fetched(fetcher, try server.url("/a")).sink.bytes == [7])
        #expect(await Fetched(fetcher, try other.url("/b")).sink.bytes == [7])
        #expect(server.requests.map { $0["Authorization"] } == ["Bearer abc.DEF-1~+/="])
        #expect(other.requests.count == 2)
        #expect(other.requests.allSatisfy { $0["Authorization"] == nil })
    }

    @Test(arguments: [
        "http://h/", "http://128.0.0.1/", "http://127.0.0.1.example.com/", "http://127.1/",
        "http://localhost.example.com/",
        "http://0.0.0.0/", "http://127.0.0.256/", "http://[::2]/",
    ])
    func `rejects an origin with an unencrypted connection`(url: String) throws {
        let origin = try FetchURL(parsing: url).origin
        #expect(throws: CredentialError.cleartextOrigin(host: origin.host)) {
            try BearerCredential(tokenFile: Array("secret".utf8), origin: origin)
        }
    }

    @Test(arguments: [
        "https://h/", "http://127.0.0.1/", "http://127.255.3.4:8080/", "http://LOCALHOST/", "http://[::1]:80/",
    ])
    func `accepts an origin with TLS or on this machine`(url: String) throws {
        let origin = try FetchURL(parsing: url).origin
        #expect(try BearerCredential(tokenFile: Array("secret".utf8), origin: origin).origin == origin)
    }

    @Test func `does not print the token`() throws {
        let credential = try BearerCredential(
            tokenFile: Array("secret".utf8), origin: try FetchURL(parsing: "https://h/").origin)
        var options = FetchOptions(userAgent: "t")
        options.credential = credential
        var dumped = ""
        dump(options, to: &dumped)
        #expect(!"\(options) \(credential) \(dumped) \(String(reflecting: options))".contains("secret"))
    }
}
