import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import Testing

/// Fails without `openssl` and `python3`.
@Suite(.ownThread) struct TLSTests {
    func fetcher(trusting caFile: String?) -> CurlFetcher {
        CurlFetcher(options: FetchOptions(userAgent: "t", caFile: caFile))
    }

    @Test func `trusts the authority of the CA file`() async throws {
        let server = try TLSServer()
        #expect(await Fetched(fetcher(trusting: server.caFile), try server.url("/ok")).sink.text == "ok")
        #expect(await Fetched(fetcher(trusting: server.caFile), try server.url("/away")).sink.text == "ok")
    }

    private static let hasNode =
        (try? Program.run(["node", "-e", "require('http2')"], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"])
            .status) == 0

    @Test(.enabled(if: hasNode, "no node, which has a server for HTTP/2"))
    func `fetches several files over one HTTP/2 connection`() async throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let folder = try TemporaryFolder()
        let script = """
            const http2 = require("http2"), fs = require("fs")
            const server = http2.createSecureServer(
                { cert: fs.readFileSync(process.argv[2]), key: fs.readFileSync(process.argv[3]), allowHTTP1: false })
            let sessions = 0
            server.on("session", () => sessions++)
            server.on("stream", (stream, fields) => {
                const whole = Buffer.alloc(200000, fields[":path"]), range = /bytes=(\\d+)-/.exec(fields.range || "")
                const start = range ? Number(range[1]) : 0
                const more = range ? { "content-range": `bytes ${start}-${whole.length - 1}/${whole.length}` } : {}
                stream.respond({ ":status": range ? 206 : 200, etag: '"one"', sessions, ...more })
                stream.end(fields[":path"] == "/sessions" ? String(sessions) : whole.subarray(start))
            })
            server.listen(0, "127.0.0.1", () => console.log(server.address().port))
            """
        let file = try folder.write(Array(script.utf8), to: "server.js")
        let server = try Command(["node", file, authority.certificateFile, authority.keyFile])
        let port = try #require(Int(server.nextLine()))
        let fetcher = fetcher(trusting: authority.authorityFile)
        @Sendable func url(_ path: String) throws -> FetchURL {
            try FetchURL(parsing: "https://127.0.0.1:\(port)\(path)")
        }
        try await withThrowingTaskGroup { group in
            for number in 0..<8 {
                group.addTask {
                    let bytes = try await fetcher.fetchBytes(try url("/\(number)"), maximumBytes: 1 << 20)
                    #expect(bytes == (0..<200_000).map { Array("/\(number)".utf8)[$0 % 2] })
                }
            }
            try await group.waitForAll()
        }
        let resume = FetchRequest.Resume(offset: 199_999, validator: "\"one\"")
        let rest = await Fetched(fetcher, try url("/7"), resume: resume)
        #expect(rest.sink.bytes == Array("7".utf8))
        #expect(rest.sink.heads.first?.rangeStart == 199_999)
        #expect(try await fetcher.fetchBytes(url("/sessions"), maximumBytes: 10) == Array("1".utf8))
    }

    @Test func `rejects an unknown authority`() async throws {
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

    @Test func `rejects a certificate for another name`() async throws {
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

    @Test func `rejects a redirect from https to http`() async throws {
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

    @Test func `follows a redirect from http to https`() async throws {
        let server = try TLSServer()
        let plain = try LoopbackServer(["/a": .redirect(to: try server.url("/ok").description)])
        #expect(await Fetched(fetcher(trusting: server.caFile), try plain.url("/a")).sink.text == "ok")
    }
}
