import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("clientctl with a hostile bucket", .ownThread) struct HostileBucketTests {
    private let site: Site
    private let scratch: String

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        scratch = try site.folder.makeFolder("scratch")
    }

    /// A bucket server with the feed of the site. `change` can replace a response.
    private func store(_ change: @escaping @Sendable (String) -> Route?) throws -> LoopbackServer {
        let feed = site.feed
        let listed = try TreeSnapshot(of: feed).files.map { name, content in
            "<Contents><Key>\(name)</Key><Size>\(content.count)</Size></Contents>"
        }.joined()
        return try LoopbackServer { request in
            let path = String(request.target.dropFirst("/buck".count))
            if let route = change(path) { return route }
            if path.hasPrefix("?") { return Route(bytes("<ListBucketResult>\(listed)</ListBucketResult>")) }
            guard let found = try? contents(ofFile: feed + path) else {
                return Route(bytes("<Code>NoSuchKey</Code>"), status: 404)
            }
            return Route(found).with { $0.headers = [("ETag", "\"\(found.count)\"")] }
        }
    }

    private func start(_ arguments: [String], _ server: LoopbackServer, _ more: [String: String] = [:]) throws
        -> Program
    {
        try Clientctl.start(
            arguments + ["--json"],
            environment: [
                "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:\(server.port)", "AWS_ACCESS_KEY_ID": "id",
                "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "TMPDIR": scratch,
            ].merging(more) { $1 })
    }

    private func run(_ arguments: [String], _ server: LoopbackServer, _ more: [String: String] = [:]) throws -> Outcome
    {
        try Outcome(start(arguments, server, more).wait())
    }

    private func left() throws -> [String] {
        try Clientctl.stock(["ls", "-A", scratch]).split(separator: "\n").map(String.init)
    }

    @Test func `stops reading an archive from a bucket at its signed size`() throws {
        let server = try store { path in
            path.contains("client-v1.0.0") ? Route().with { $0.body = .endless } : nil
        }
        let manifest = "s3://buck/releases/v1.0.0/manifest.json"
        try run(["verify", manifest, "--trust", site.trust], server).failed(23, "sizeMismatch")
        #expect(try left() == [])
        let kit = site.folder.file("kit")
        try run(["feed", "export", "--feed", "s3://buck", "--to", kit], server).failed(23, "digestMismatch")
        #expect(access(kit, F_OK) != 0)
        #expect(try Clientctl.stock(["ls", "-A", site.folder.path]).contains(".clientctl-kit") == false)
    }

    @Test func `stops reading an endless manifest from a bucket`() throws {
        let server = try store { path in
            path.hasSuffix("/manifest.json") ? Route().with { $0.body = .endless } : nil
        }
        try run(["inspect", "s3://buck/manifest.json"], server).failed(23, "sizeMismatch")
        #expect(try left() == [])
    }

    @Test func `removes temporary files of a bucket when a signal ends the command`() throws {
        let server = try store { path in
            path.contains("client-v1.0.0") ? Route(bytes("incomplete")).with { $0.pace = .stall(after: 1) } : nil
        }
        for (index, signal) in [SIGTERM, SIGINT, SIGHUP].enumerated() {
            let running = try start(["verify", "s3://buck/manifest.json", "--trust", site.trust], server)
            let deadline = ContinuousClock.now + .seconds(60)
            var early: Program.Ending?
            while server.requests.count(where: { $0.target.contains("client-v1.0.0") }) <= index, early == nil,
                ContinuousClock.now < deadline
            { early = try running.wait(within: .milliseconds(10)) }
            #expect(try left().count == 1, "\(signal): \(early?.errors ?? "")")
            running.send(signal)
            let ending = try early ?? running.wait()
            #expect(ending.signal == signal, "\(ending.status ?? -1) \(ending.errors)")
            #expect(try left() == [])
        }
    }

    @Test func `reads the region and endpoint of a bucket from the AWS configuration file`() throws {
        let server = try store { _ in nil }
        let text = """
            [default]
            region = eu-north-1
            s3 =
              endpoint_url = http://127.0.0.1:1
            [profile shop]
            region = eu-central-1
            endpoint_url = http://127.0.0.1:\(server.port)

            """
        try site.folder.makeFolder("home/.aws")
        let config = try site.folder.write(bytes(text), to: "home/.aws/config")
        let list = ["feed", "prune", "--feed", "s3://buck", "--dry-run"]
        let keys = ["AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "", "HOME": site.folder.file("home")]
        try site.folder.write(
            bytes("[shop]\naws_access_key_id = id\naws_secret_access_key = secret\n"), to: "home/.aws/credentials")
        let shop = keys.merging(["AWS_PROFILE": "shop"]) { $1 }
        try run(list, server, shop).succeeded("dryRun")
        #expect(server.requests.contains { $0["authorization"]?.contains("/eu-central-1/s3/") == true })
        try run(list, server, shop.merging(["AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"]) { $1 }).failed(
            10, "networkUnavailable")
        try Clientctl.stock(["chmod", "o+w", config])
        try run(list, server, shop).failed(31, "permissionDenied")
    }

    @Test func `sends no session token to a bucket without TLS`() throws {
        let server = try store { _ in nil }
        let token = ["AWS_SESSION_TOKEN": "session-token"]
        let list = ["feed", "prune", "--feed", "s3://buck", "--dry-run"]
        let refused = try run(list, server, token.merging(["AWS_ENDPOINT_URL_S3": "http://store.example"]) { $1 })
        #expect(refused.failed(78, "configInvalid").errors.contains("session token"), "\(refused.errors)")
        try run(list, server, token).succeeded("dryRun")
        #expect(server.requests.contains { $0["x-amz-security-token"] == "session-token" })
    }
}
