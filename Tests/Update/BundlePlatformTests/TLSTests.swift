import BundleValues
import BundlePlatform
import BundleTestTraits
import BundleTesting
import Testing

/// Needs `openssl` and `python3`; fails, and says so, without them.
@Suite(.ownThread) struct `A fetch over TLS` {
    func fetcher(trusting caFile: String?) -> CurlFetcher {
        CurlFetcher(options: FetchOptions(userAgent: "t", caFile: caFile))
    }

    @Test func `trusts the authority of the CA file`() async throws {
        let server = try TLSServer()
        #expect(await Fetched(fetcher(trusting: server.caFile), try server.url("/ok")).sink.text == "ok")
        #expect(await Fetched(fetcher(trusting: server.caFile), try server.url("/away")).sink.text == "ok")
    }

    @Test func `trusts no unknown authority`() async throws {
        let server = try TLSServer()
        let other = try TLSServer()
        for caFile in [nil, other.caFile] {
            let fetched = await Fetched(fetcher(trusting: caFile), try server.url("/ok"))
            guard case .tlsFailed = fetched.fetchError else {
                Issue.record("\(String(describing: fetched.error))")
                continue
            }
            #expect(fetched.sink.heads.isEmpty)
        }
    }

    @Test func `trusts no certificate of another name`() async throws {
        let server = try TLSServer()
        let fetched = await Fetched(fetcher(trusting: server.caFile), try server.url("/ok", host: "localhost"))
        guard case .tlsFailed = fetched.fetchError else {
            Issue.record("\(String(describing: fetched.error))")
            return
        }
    }

    @Test func `names a CA file that cannot be read`() async throws {
        let server = try TLSServer()
        let fetched = await Fetched(fetcher(trusting: "/nonexistent/ca.pem"), try server.url("/ok"))
        #expect(fetched.fetchError?.description.contains("/nonexistent/ca.pem") == true)
    }

    @Test func `is not led into the clear`() async throws {
        let plain = try LoopbackServer(["/ok": Route([7])])
        let server = try TLSServer(redirect: try plain.url("/ok").description)
        let fetched = await Fetched(fetcher(trusting: server.caFile), try server.url("/away"))
        #expect(
            fetched.fetchError
                == .redirectRefused(
                    from: try server.url("/away"), to: try plain.url("/ok").description,
                    reason: "https may not lead to http"))
        #expect(plain.connectionCount == 0)
    }

    @Test func `may be led to from the clear`() async throws {
        let server = try TLSServer()
        let plain = try LoopbackServer(["/a": .redirect(to: try server.url("/ok").description)])
        #expect(await Fetched(fetcher(trusting: server.caFile), try plain.url("/a")).sink.text == "ok")
    }
}
