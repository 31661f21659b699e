import BundleCore
import BundleValues
import BundleFetch
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests downloads over unreliable networks.
@Suite("Hot code push: unreliable networks", .ownThread)
struct NetworkTests {
    let device: PushedDevice

    init() throws {
        device = try PushedDevice.app(App.bundle("v1", [App.asset("a.txt", "a")]))
        try device.restart()
    }

    private func deploy(_ size: Int = 1000) throws -> [UInt8] {
        let content = noise(size)
        try device.deploy(
            App.bundle(
                "v2", [BundleEntry("app/large.bin", url: "/large.bin", .bytes(content)), App.asset("b.txt", "b")]))
        return content
    }

    private func requests(to path: String) -> [MeteorRequest] {
        device.server.requests.filter { $0.path == "/__cordova" + path }
    }

    @Test("N-06: retries a connection that ends before the header", arguments: ["/", "/large.bin"])
    func hangsUp(path: String) async throws {
        let content = try deploy()
        device.server.fault(path, .hangUp, times: 2)
        try await device.update()
        #expect(
            device.requests == Requests.of("/manifest.json", "/", "/large.bin", "/b.txt", path, path))
        try device.reload()
        #expect(try device.served("/large.bin") == content)
    }

    @Test("N-07: resumes a truncated file by Range and If-Range")
    func resumes() async throws {
        let content = try deploy(2_000_000)
        device.server.fault("/large.bin", .cut(after: 1_500_000), times: 1)
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/large.bin", "/large.bin", "/b.txt"))
        let requests = requests(to: "/large.bin")
        #expect(requests.first?["Range"] == nil)
        let range = try #require(requests.last?["Range"])
        let start = try #require(Int(range.dropFirst("bytes=".count).dropLast()))
        #expect(range == "bytes=\(start)-")
        #expect(start > 0 && start <= 1_500_000)
        let hash = try HashScheme.modern.hash(of: ContentDigests(of: .bytes(content)), isPublicAsset: true)
        #expect(requests.last?["If-Range"] == "\"\(hash)\"")
        try device.reload()
        #expect(try device.served("/large.bin") == content)
    }

    @Test("N-07: accepts a whole file from a server that ignores ranges")
    func restarts() async throws {
        let content = try deploy(2_000_000)
        device.server.fault("/large.bin", .cut(after: 1_500_000), times: 1)
        device.server.fault("/large.bin", .entityTag(nil), times: 1)
        try await device.update()
        #expect(requests(to: "/large.bin").count == 2)
        #expect(requests(to: "/large.bin").last?["Range"] != nil)
        try device.reload()
        #expect(try device.served("/large.bin") == content)
    }

    @Test("N-07: resumes a truncated file in the next process")
    func resumesInNextProcess() async throws {
        let content = try deploy(2_000_000)
        let gate = try Gate()
        device.server.fault("/large.bin", .holdBody(after: 1_500_000, gate))
        let task = Task { try await device.update() }
        try await device.waitForFinished(["/b.txt"])
        while !device.largestPart(atLeast: 1_000_000) { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        _ = await task.result
        device.server.heal()
        gate.open()
        try device.server.serve(version: "v2")
        try await device.update()
        #expect(device.requests == Requests.of("/manifest.json", "/", "/large.bin"))
        #expect(requests(to: "/large.bin").first?["Range"]?.hasPrefix("bytes=") == true)
        try device.reload()
        #expect(try device.served("/large.bin") == content)
        #expect(try device.text("/b.txt") == "b")
    }

    @Test("N-15: waits for Retry-After of several 503 responses and loses no file")
    func burst() async throws {
        let files = (0..<20).map { App.asset("f\($0).txt", "file \($0)") }
        try device.deploy(App.bundle("v2", files))
        for path in ["/manifest.json", "/"] { device.server.fault(path, .none) }
        device.server.fault("*", .status(503, retryAfter: "1"), times: 10)
        let start = ContinuousClock.now
        try await device.update()
        #expect(ContinuousClock.now - start >= .seconds(1))
        #expect(device.server.requests.count == 32)
        #expect(device.requests.count == 22)
        try device.reload()
        for index in 0..<20 { #expect(try device.text("/f\(index).txt") == "file \(index)") }
    }

    @Test("P33: requests one file again after one 503 among 151 requests")
    func oneShed() async throws {
        let paths = (0..<150).map { "/d\($0 % 7)/f\($0).txt" }
        try device.deploy(App.bundle("v2", paths.map { App.asset(String($0.dropFirst()), "at \($0)") }))
        device.server.fault("/d0/f77.txt", .status(503), times: 1)
        try await device.update()
        #expect(device.requests == Requests.of(["/manifest.json", "/", "/d0/f77.txt"] + paths))
        #expect(device.server.connectionCount < 20)
        try device.reload()
        for path in paths { #expect(try device.text(path) == "at \(path)") }
    }

    @Test("AN-06: ends after five responses of 500")
    func staysBroken() async throws {
        _ = try deploy()
        device.server.fault("/large.bin", .status(500))
        try await device.expectRefusal(.httpStatus, "Non-success status code 500 for asset: /large.bin")
        #expect(requests(to: "/large.bin").count == 5)
    }

    @Test(
        "N-23: does not follow a redirect of a Meteor server from https to http",
        arguments: ["/manifest.json", "/", "/b.txt"])
    func redirectIntoTheClear(path: String) async throws {
        let plain = try LoopbackServer([:])
        let secure = try TLSMeteor(
            App.bundle("v2", [App.asset("b.txt", "b")]), redirecting: path, to: try plain.url(path).description)
        let source = MeteorServerOptions(rootURL: try secure.url("/"), platform: .android)
        let channel = try MeteorSource(
            source, seed: nil, fetcher: CurlFetcher(options: FetchOptions(userAgent: "tests", caFile: secure.caFile)),
            report: UpdateObserver())
        let updater = Updater(
            source: channel,
            device: .init(
                store: device.store, shell: try SemanticVersion(parsing: "1.0.0"), appId: nil, keep: 3),
            environment: Environment())
        let before = try device.picture()
        let failure = await #expect(throws: (any Error).self) { _ = try await updater.update() }
        let refusal = failure.map { UpdateFailure($0) }
        #expect(refusal?.code == .networkUnavailable)
        #expect(refusal?.message.contains("https may not lead to http") == true, "\(refusal?.message ?? "")")
        #expect(plain.requests.isEmpty)
        #expect(try device.picture().changes(since: before) == [])
    }
}

/// A Meteor server with TLS and one redirected path.
private struct TLSMeteor {
    private let folder: TemporaryFolder
    private let server: TLSServer

    var caFile: String { server.caFile }

    /// The test server uses `index.html` for the URL of the folder.
    init(_ builder: MeteorBundleBuilder, redirecting path: String, to target: String) throws {
        folder = try TemporaryFolder()
        let bundle = try builder.build()
        try bundle.writeServerLayout(to: folder.file("bundle"))
        server = try TLSServer(
            redirect: target, serving: folder.file("bundle"), below: "/__cordova", redirecting: "/__cordova" + path)
    }

    func url(_ path: String) throws -> FetchURL { try server.url(path) }
}
