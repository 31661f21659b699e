import BundleCore
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct AddressTests {
    /// Publishes a document whose release has the exact URL `url`, with the archive at `path`.
    private static func offering(_ url: String, at path: String? = nil) -> @Sendable (TrustFeed) throws -> Void {
        { feed in
            try feed.offer(2) { payload in
                try edited(payload) { document in
                    let releases = (document["releases"]?.arrayValue ?? []).map { release in
                        var release = release.objectValue ?? [:]
                        release["url"] = .string(url)
                        return JSONValue.object(release)
                    }
                    document["releases"] = .array(releases)
                }
            }
            feed.server.set(TrustFeed.archivePath("1.1.0"), Route([], status: 404))
            if let path { feed.server.set(path, Route(TrustFeed.archive("1.1.0"))) }
        }
    }

    private static let long = "/" + String(repeating: "a", count: 2000)

    static let fetched: [Scenario] = [
        Scenario("TUF-191: an encoded space", nil, offering("/a%20b.tar", at: "/a%20b.tar")),
        Scenario("TUF-192: an encoded slash stays encoded", nil, offering("/a%2fb.tar", at: "/a%2fb.tar")),
        Scenario("TUF-193: encoded letters of other scripts", nil, offering("/%C3%BC.tar", at: "/%C3%BC.tar")),
        Scenario("TUF-194: a query", nil, offering("/x.tar?t=a&b=%2f", at: "/x.tar?t=a&b=%2f")),
        Scenario("TUF-195: a fragment is not sent", nil, offering("/x.tar#part", at: "/x.tar")),
        Scenario("TUF-196: one folder up", nil, offering("../r/x.tar", at: "/r/x.tar")),
        Scenario("TUF-197: more folders up than there are", nil, offering("../../../../x.tar", at: "/x.tar")),
        Scenario("TUF-198: dots in the middle", nil, offering("/r/./y/../x.tar", at: "/r/x.tar")),
        Scenario("TUF-199: beside the document", nil, offering("x.tar", at: "/channels/x.tar")),
        Scenario("TUF-200: 2000 letters", nil, offering(long, at: long)),
    ]

    @Test(arguments: fetched) func `requests an unusual archive URL unchanged`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    static let refusedAfterwards: [Scenario] = [
        Scenario("TUF-201: a file of the device", .manifestMalformed, offering("file:///etc/passwd")),
        Scenario("TUF-202: another scheme", .manifestMalformed, offering("ftp://127.0.0.1/x.tar")),
        Scenario("TUF-203: a user and a password", .manifestMalformed, offering("http://u:p@127.0.0.1/x.tar")),
        Scenario("TUF-204: letters of other scripts as they are", .manifestMalformed, offering("/\u{FC}.tar")),
        Scenario("TUF-205: half an escape", .manifestMalformed, offering("/a%2")),
        Scenario("TUF-206: more than 8 KiB", .manifestMalformed, offering("/" + String(repeating: "a", count: 8192))),
        Scenario("TUF-207: a backslash", .manifestMalformed, offering("\\\\host\\x.tar")),
    ]

    @Test(arguments: refusedAfterwards) func `rejects a release with an archive URL that must not be requested`(
        _ scenario: Scenario
    ) async throws {
        let failure = try #require(try await scenario.run(learnt: true))
        #expect(failure.subject == "manifest.url")
    }

    static let refused: [Scenario] = [
        Scenario("TUF-208: a space", .manifestMalformed, offering("/a b.tar")),
        Scenario("TUF-209: a line break", .manifestMalformed, offering("/a\r\nHost: x")),
        Scenario("TUF-210: an empty URL", .manifestMalformed, offering("")),
    ]

    @Test(arguments: refused) func `rejects a document with an invalid archive URL`(
        _ scenario: Scenario
    ) async throws {
        try await scenario.run()
    }

    @Test func `TUF-211: downloads an archive from another origin`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed)
        let mirror = try LoopbackServer(["/x.tar": Route(TrustFeed.archive("1.1.0"))])
        let release = try feed.release("1.1.0") { $0.url = "\(try mirror.url("/x.tar"))" }
        try feed.offer(feed.document(1, [release]))
        try await device.installs("1.1.0")
        #expect(mirror.requests.map(\.target) == ["/x.tar"])
    }

    @Test func `TUF-212: applies the stored sequence to a mirror at another URL`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        let good = feed.document(5, [try feed.release("1.1.0")])
        try feed.offer(good)
        try await device.installs("1.1.0")
        let mirror = try TrustFeed()
        let old = feed.document(4, [try feed.release("1.2.0")])
        mirror.serve(try ChannelFormat.envelope(old).signed(by: [feed.channel]).document)
        device.source = .channel(try mirror.server.url("/channels/stable.json"))
        try await device.refuses(.rollbackAttempt)
        mirror.serve(try ChannelFormat.envelope(good).signed(by: [feed.channel]).document)
        try await device.stays(at: "v1.1.0")
    }

    // MARK: Names of channels

    @Test(arguments: [
        ("TUF-213: hidden", "/channels/.hidden.json"), ("TUF-214: upper case", "/channels/Stable.json"),
        ("TUF-215: empty", "/channels/.json"),
        ("TUF-216: 65 letters", "/channels/\(String(repeating: "a", count: 65)).json"),
        ("TUF-217: an encoded slash", "/channels/a%2fb.json"), ("TUF-218: encoded dots", "/channels/%2e%2e%2fx.json"),
        ("TUF-219: without its ending", "/channels/stable"), ("TUF-220: a folder", "/channels/"),
        ("TUF-221: an encoded question mark", "/channels/%3f.json"), ("TUF-222: an encoded hash", "/channels/%23.json"),
        ("TUF-223: a comma", "/channels/a,b.json"), ("TUF-224: in the query only", "/channels/x?/stable.json"),
    ])
    func `rejects the URL of an invalid channel name before any request`(name: String, path: String) async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = path
        feed.server.set(path, Route([1]))
        let failure = try await device.refuses(.configInvalid)
        #expect(failure.subject == (try feed.server.url(path).display))
        #expect(failure.message.contains(failure.subject))
        #expect(!feed.server.requests.contains { $0.target == path })
    }

    @Test(arguments: [
        ("TUF-225: one letter", "a"), ("TUF-226: 64 letters", String(repeating: "z", count: 64)),
        ("TUF-227: every sign that is allowed", "0.b-c_d..e"),
    ])
    func `follows a channel with a valid name`(name: String, channel: String) async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = "/channels/\(channel).json"
        try feed.offer(1, ["1.1.0"]) { $0.channel = channel }
        try await device.installs("1.1.0")
        #expect(try device.memory().followed?.name == channel)
    }

    @Test func `TUF-228: derives the channel from the resolved path`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = "/channels/../x.json"
        for path in ["/channels/../x.json", "/x.json"] { feed.server.set(path, Route([], status: 404)) }
        try feed.offer(1, ["1.1.0"])
        try await device.refuses(.httpStatus)
        let stable = ChannelFormat.envelope(feed.document(1, [try feed.release("1.1.0")]))
        feed.server.set("/x.json", Route(try stable.signed(by: [feed.channel]).document))
        // The document is for the channel stable.
        try await device.refuses(.manifestMalformed)
    }
}
