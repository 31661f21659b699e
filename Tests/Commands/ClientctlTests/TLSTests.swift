import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// TLS: the servers that a device trusts and the servers that receive its token.
@Suite(.ownThread) struct TLSTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
    }

    @Test func `--ca-file trusts only the authorities in the file`() throws {
        let server = try TLSServer(serving: site.feed)
        let url = try server.url("/manifest.json").display
        try site.install(url).failed(10, "networkUnavailable")
        let stranger = try TLSServer()
        try site.install(url, ["--ca-file", stranger.caFile]).failed(10, "networkUnavailable")
        try site.install(server.url("/manifest.json", host: "localhost").display, ["--ca-file", server.caFile])
            .failed(10, "networkUnavailable")
        #expect(try TreeSnapshot(of: site.store).paths == [])
        try site.install(url, ["--ca-file", server.caFile]).succeeded("installed")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
    }

    @Test func `rejects an invalid --ca-file as configInvalid`() throws {
        let server = try TLSServer(serving: site.feed)
        let url = try server.url("/manifest.json").display
        try site.install(url, ["--ca-file", site.folder.file("nothing.pem")]).failed(78, "configInvalid")
        let text = try site.folder.write(bytes("not a certificate\n"), to: "text.pem")
        try site.install(url, ["--ca-file", text]).failed(78, "configInvalid")
    }

    @Test func `install writes no TLS session keys`() throws {
        let server = try TLSServer(serving: site.feed)
        try site.folder.makeFolder("store")
        chmod(site.store, 0o700)
        // The file is in the store, where the sandbox allows writing.
        let keys = "\(site.store)/keys.log"
        try Clientctl.run(
            site.arguments("install", try server.url("/manifest.json").display, ["--ca-file", server.caFile]),
            environment: ["SSLKEYLOGFILE": keys]
        ).succeeded("installed")
        #expect(access(keys, F_OK) != 0)
    }

    @Test func `install never follows https to http`() throws {
        let plain = try LoopbackServer(folder: site.feed)
        let server = try TLSServer(redirect: plain.url("/manifest.json").display, serving: site.folder.path)
        let trusting = ["--ca-file", server.caFile]
        // By a redirect.
        try site.install(server.url("/away").display, trusting).failed(10, "networkUnavailable")
        // By the URL of a manifest.
        let handmade = HandmadeRelease(site: site)
        try Clientctl.stock(["cp", "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst", site.folder.file("client")])
        var fields = try handmade.required("1.0.0", archive: "client")
        fields["url"] = try plain.url("/releases/v1.0.0/client-v1.0.0.tar.zst").display
        _ = try handmade.write(fields, to: "hand.json")
        try site.install(server.url("/hand.json").display, trusting).failed(25, "manifestMalformed")
        #expect(plain.requests.isEmpty)
        #expect(try site.list().strings("versions") == ["embedded"])
        #expect(try TreeSnapshot(of: site.store).files.keys.filter { $0.hasPrefix("clients/") } == [])
    }

    @Test func `install says that a server at an https address answers without TLS`() throws {
        let host = try Hosting(site.feed)
        let url = "\(host.url)manifest.json".replacing("http://", with: "https://")
        let refused = try site.install(url).failed(10, "networkUnavailable")
        #expect(refused.errors.contains("the server answers without TLS"), "\(refused.errors)")
    }

    @Test func `install names a missing file as it was typed`() throws {
        let refused = try Clientctl.run(
            [
                "install", "--manifest", "none/manifest.json", "--trust", site.trust, "--store", site.store, "--json",
            ], in: site.folder.path)
        #expect(refused.errors.contains(" none/manifest.json does not exist"), "\(refused.errors)")
    }

    @Test func `install rejects a file URL in a manifest from the network`() throws {
        var manifest = try site.object(site.manifest)
        manifest["url"] = .string("file://\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst")
        let server = try LoopbackServer([
            "/manifest.json": Route(JSONWriter.bytes(of: .object(manifest)))
        ])
        try site.install(server.url("/manifest.json").display).failed(25, "manifestMalformed")
    }

    @Test func `install sends its token only to the origin of the manifest`() throws {
        let token = try site.folder.write(bytes("s3cret.token\n"), to: "token")
        let archive = "/releases/v1.0.0/client-v1.0.0.tar.zst"
        let elsewhere = try LoopbackServer(folder: site.feed)
        let own = try LoopbackServer(folder: site.feed)

        // The archive is on another origin, by a redirect.
        own.set(archive, .redirect(to: try elsewhere.url(archive).display))
        let installed = try site.install(own.url("/manifest.json").display, ["--token-file", token])
        installed.succeeded("installed")
        #expect(own.requests.map { $0["Authorization"] } == ["Bearer s3cret.token", "Bearer s3cret.token"])
        #expect(elsewhere.requests.map(\.target) == [archive])
        #expect(elsewhere.requests.map { $0["Authorization"] } == [nil])

        // The archive is on another origin, by the unsigned URL of the manifest.
        var manifest = try site.object(site.manifest)
        manifest["url"] = .string(try elsewhere.url(archive).display)
        own.set("/manifest.json", Route(JSONWriter.bytes(of: .object(manifest))))
        try Clientctl.stock(["rm", "-r", site.store])
        try site.install(own.url("/manifest.json").display, ["--token-file", token]).succeeded("installed")
        #expect(elsewhere.requests.map { $0["Authorization"] } == [nil, nil])

        // Error messages do not contain the token.
        let gone = try site.install(own.url("/gone").display, ["--token-file", token]).failed(11, "httpStatus")
        #expect(!gone.text.contains("s3cret") && !gone.errors.contains("s3cret"))
        try site.folder.write(bytes("s3cret token"), to: "token")
        let bad = try site.install(own.url("/manifest.json").display, ["--token-file", token])
        bad.failed(78, "configInvalid")
        #expect(!bad.text.contains("s3cret") && !bad.errors.contains("s3cret"))
    }
}
