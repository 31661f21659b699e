import BundleCore
import ArchiveSource
import BundleValues
import BundleFetch
import BundleSigning
import BundleTesting
import Testing

@Suite struct ReplacedArchiveTests {
    private static let path = TrustFeed.archivePath("1.1.0")
    private static let good = TrustFeed.archive("1.1.0")

    private static func serving(_ route: Route) -> @Sendable (TrustFeed) throws -> Void {
        { feed in
            try feed.offer(2, ["1.1.0"])
            feed.server.set(path, route)
        }
    }

    static let answers: [Scenario] = [
        Scenario("TUF-162: other bytes of the same length", .digestMismatch, serving(Route(good.map { $0 ^ 1 }))),
        Scenario("TUF-163: another version's archive", .digestMismatch, serving(Route(TrustFeed.archive("1.0.0")))),
        Scenario("TUF-164: one byte more", .sizeMismatch, serving(Route(good + [0]))),
        Scenario("TUF-165: one byte less", .sizeMismatch, serving(Route(Array(good.dropLast())))),
        Scenario("TUF-166: nothing", .sizeMismatch, serving(Route([]))),
        Scenario("TUF-167: endless, without a length", .sizeMismatch, serving(Route().with { $0.body = .endless })),
        Scenario(
            "TUF-168: endless, in chunks", .sizeMismatch,
            serving(
                Route().with {
                    $0.body = .endless
                    $0.framing = .chunked
                })),
        Scenario(
            "TUF-169: a stated length beyond all bounds", .sizeMismatch,
            serving(Route(good).with { $0.framing = .stated("9223372036854775807") })),
        Scenario(
            "TUF-170: a stated length that is not a number", .networkUnavailable,
            serving(Route(good).with { $0.framing = .stated("many") })),
        Scenario(
            "TUF-171: a stated length below the true one", .sizeMismatch,
            serving(Route(good).with { $0.framing = .stated("10") })),
        Scenario(
            "TUF-172: cut off in the middle", .networkUnavailable,
            serving(Route(good).with { $0.pace = .cut(after: 100) })),
        Scenario(
            "TUF-173: cut off before the first byte", .networkUnavailable,
            serving(Route(good).with { $0.pace = .cut(after: 0) })),
        Scenario("TUF-174: a missing archive", .httpStatus, serving(Route([], status: 404))),
        Scenario("TUF-175: forbidden", .httpStatus, serving(Route([], status: 403))),
        Scenario("TUF-176: the server fails", .httpStatus, serving(Route([], status: 500))),
        Scenario(
            "TUF-177: a redirect to another version's archive", .digestMismatch,
            serving(.redirect(to: TrustFeed.archivePath("1.0.0")))),
        Scenario("TUF-178: a redirect to itself", .networkUnavailable, serving(.redirect(to: path))),
        Scenario(
            "TUF-179: a redirect to a file of the device", .networkUnavailable,
            serving(.redirect(to: "file:///etc/passwd"))),
        Scenario(
            "TUF-180: a part that was not requested", .networkUnavailable,
            serving(
                Route(good, status: 206).with {
                    $0.headers = [("Content-Range", "bytes 0-\(good.count - 1)/\(good.count)")]
                })),
        Scenario("TUF-181: a web page instead of the archive", .sizeMismatch, serving(Route(Array("<html>".utf8)))),
        Scenario("TUF-182: the archive after five redirects", nil) { feed in
            try feed.offer(2, ["1.1.0"])
            for hop in 1...4 { feed.server.set("/hop\(hop)", .redirect(to: "/hop\(hop + 1)")) }
            feed.server.set("/hop5", Route(good))
            feed.server.set(path, .redirect(to: "/hop1"))
        },
        Scenario("TUF-183: the archive after six redirects", .networkUnavailable) { feed in
            try feed.offer(2, ["1.1.0"])
            for hop in 1...5 { feed.server.set("/hop\(hop)", .redirect(to: "/hop\(hop + 1)")) }
            feed.server.set("/hop6", Route(good))
            feed.server.set(path, .redirect(to: "/hop1"))
        },
    ]

    @Test(arguments: answers) func `accepts only an archive with the signed bytes`(_ scenario: Scenario) async throws {
        try await scenario.run(learnt: scenario.code != nil)
    }

    @Test func `TUF-184: rejects the archive of another version`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0", "1.1.0"])
        feed.server.set(Self.path, Route(TrustFeed.archive("1.0.0")))
        feed.server.set(TrustFeed.archivePath("1.0.0"), Route(Self.good))
        try await device.refuses(.digestMismatch, learnt: true)
        #expect(try device.inventory().bundles.isEmpty)
    }

    @Test func `TUF-185: installs in the run after a server failure`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.1.0"])
        for route in [
            Route([], status: 500), Route([], status: 503), Route(Self.good).with { $0.pace = .cut(after: 600) },
        ] {
            feed.server.set(Self.path, route)
            var failure: UpdateFailure?
            do { _ = try await device.update() } catch { failure = UpdateFailure(error) }
            #expect([.httpStatus, .networkUnavailable].contains(failure?.code))
        }
        feed.server.set(Self.path, Route(Self.good))
        try await device.installs("1.1.0")
    }

    @Test func `TUF-186: does not request the archive of the installed version`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        try feed.offer(1, ["1.1.0"])
        try await device.installs("1.1.0")
        feed.server.set(Self.path, Route([1, 2, 3]))
        try await device.stays(at: "v1.1.0")
        let content = try contents(ofFile: "\(device.store)/clients/v1.1.0/version.txt")
        #expect(content == Array("1.1.0".utf8))
    }

    @Test func `TUF-187: rejects replaced documents after each of several releases`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        for number in 1...5 {
            try feed.offer(number, ["1.\(number).0"])
            try await device.installs("1.\(number).0")
            let next = "1.\(number).1"
            try feed.offer(feed.document(100 + number, [try feed.release(next)]), by: [feed.release])
            try await device.refuses(.keyUnknown)
        }
        #expect(try device.inventory().bundles.count == 5)
    }

    @Test func `TUF-188: aborts a stalled download`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.fetcher = ShortTimeoutFetcher(at: try feed.server.url(Self.path)) {
            $0.stallTimeout = .milliseconds(300)
        }
        try feed.offer(1, ["1.1.0"])
        feed.server.set(Self.path, Route(Self.good).with { $0.pace = .stall(after: 200) })
        try await device.refuses(.networkUnavailable, learnt: true)
        let document = try ChannelFormat.envelope(feed.document(2, [])).signed(by: [feed.channel]).document
        device.fetcher = ShortTimeoutFetcher(at: try feed.server.url(device.path)) {
            $0.stallTimeout = .milliseconds(300)
        }
        feed.server.set(device.path, Route(document).with { $0.pace = .stall(after: 20) })
        try await device.refuses(.networkUnavailable)
    }

    @Test func `TUF-189: aborts a slow download`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.fetcher = ShortTimeoutFetcher(at: try feed.server.url(Self.path)) {
            ($0.slowWindow, $0.slowFloor) = (.milliseconds(300), 1 << 30)
        }
        try feed.offer(1, ["1.1.0"])
        feed.server.set(
            Self.path,
            Route().with {
                $0.framing = .chunked
                $0.pace = .drip(bytes: 1, everyMilliseconds: 20)
            })
        try await device.refuses(.networkUnavailable, learnt: true)
    }

    @Test func `TUF-190: rejects a redirect from https to http`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        let folder = try TemporaryFolder()
        let document = feed.document(1, [try feed.release("1.1.0") { $0.url = "/away/client.tar" }])
        try folder.makeFolder("channels")
        try folder.write(
            ChannelFormat.envelope(document).signed(by: [feed.channel]).document, to: "channels/stable.json")
        let plain = try feed.server.url(Self.path)
        let server = try TLSServer(redirect: "\(plain)", serving: folder.path, redirecting: "/away/client.tar")
        device.fetcher = CurlFetcher(options: FetchOptions(userAgent: "tests", caFile: server.caFile))
        device.source = .channel(try server.url("/channels/stable.json"))
        let failure = try await device.refuses(.networkUnavailable, learnt: true)
        #expect(failure.message.contains("https may not lead to http"))
        #expect(feed.server.requests.isEmpty)
    }
}

/// Uses short timeouts for one URL only.
private struct ShortTimeoutFetcher: Fetcher {
    let url: FetchURL
    private let shortTimeout: CurlFetcher
    private let standard = CurlFetcher(options: FetchOptions(userAgent: "tests"))

    init(at url: FetchURL, _ change: (inout FetchOptions) -> Void) {
        self.url = url
        var options = FetchOptions(userAgent: "tests")
        change(&options)
        shortTimeout = CurlFetcher(options: options)
    }

    func fetch<Sink: FetchSink & ~Copyable>(
        _ request: FetchRequest, into sink: inout Sink
    ) async throws -> FetchHead {
        let fetcher = request.url == url ? shortTimeout : standard
        return try await fetcher.fetch(request, into: &sink)
    }
}
