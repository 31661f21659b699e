import BundleCore
import ArchiveSource
import BundleValues
import BundleSigning
import BundleTesting
import Testing

@Suite struct ExpiryTests {
    /// Returns a device that installed 1.0.0 by document 1, which expires on day 40.
    private func settled(_ feed: TrustFeed) async throws -> Follower {
        let device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        return device
    }

    @Test(
        arguments: [
            ("TUF-13: a second before a document expires", -1, nil), ("TUF-14: at its expiry", 0, .expired),
            ("TUF-15: a second after", 1, .expired),
        ] as [(String, Int, FailureCode?)])
    func `rejects a channel document from its expiry on`(name: String, seconds: Int, code: FailureCode?) async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.offer(2, ["1.1.0"])
        device.now = Day.number(40, seconds)
        guard let code else { return try await device.installs("1.1.0") }
        let failure = try await device.refuses(code)
        #expect(failure.message.contains("clientctl channel renew"))
        try device.runs("v1.0.0")
    }

    @Test(
        arguments: [
            ("TUF-16: a second before a trust root expires", -1, nil), ("TUF-17: at its expiry", 0, .expired),
            ("TUF-18: a second after", 1, .expired),
        ] as [(String, Int, FailureCode?)])
    func `rejects a trust root from its expiry on`(name: String, seconds: Int, code: FailureCode?) async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.offer(2, ["1.1.0"]) { $0.expires = Day.number(999) }
        device.now = Day.number(365, seconds)
        guard let code else { return try await device.installs("1.1.0") }
        let failure = try await device.refuses(code)
        #expect(failure.subject == "trust root")
    }

    @Test(
        arguments: [
            ("TUF-19: a second before a key's end", -1, nil), ("TUF-20: at its end", 0, .keyUnknown),
            ("TUF-21: a second after", 1, .keyUnknown),
        ] as [(String, Int, FailureCode?)])
    func `rejects a key from its end on`(name: String, seconds: Int, code: FailureCode?) async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.publish(2) { trust in
            for index in trust.keys.indices where trust.keys[index].publicKey.id == feed.channel.id {
                trust.keys[index].notAfter = Day.number(20)
            }
        }
        try feed.offer(2, ["1.1.0"])
        device.now = Day.number(20, seconds)
        guard let code else { return try await device.installs("1.1.0") }
        try await device.refuses(code, learnt: true)
        #expect(try device.memory().trust?.version == 2)
        #expect(try device.sequence() == 1)
    }

    @Test func `TUF-22: accepts the next root from a root key after its end`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(
            feed, trusting: feed.pinned(feed.trustRoot { $0.keys[0].notAfter = Day.number(5) }))
        try feed.publish(2, by: [feed.root, feed.keys[1]]) { $0.set(.root, [feed.keys[1]]) }
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        #expect(try device.memory().trust?.version == 2)
    }

    @Test func `TUF-23: stores an expired root but installs nothing by it`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2)
        try feed.publish(3) { $0.expires = Day.number(9) }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.expired, learnt: true)
        #expect(try device.memory().trust?.version == 3)
        #expect(try device.sequence() == 1)
    }

    @Test func `TUF-24: ignores the expiry of all roots but the last`() async throws {
        let feed = try TrustFeed()
        let device = try Follower(feed, trusting: feed.pinned(feed.trustRoot { $0.expires = Day.number(1) }))
        try feed.publish(2) { $0.expires = Day.number(2) }
        try feed.publish(3) { $0.expires = Day.number(3) }
        try feed.publish(4)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        #expect(try device.memory().trust?.version == 4)
    }

    @Test func `TUF-25: accepts the next document after the known one has expired`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.offer(2, ["1.1.0"]) { $0.expires = Day.number(80) }
        device.now = Day.number(60)
        try await device.installs("1.1.0")
    }

    @Test func `TUF-26: rejects a flat manifest after the trust root has expired`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.path = "/manifest.json"
        try feed.offerFlat("1.0.0")
        try await device.installs("1.0.0")
        try feed.offerFlat("1.1.0")
        device.now = Day.number(366)
        try await device.refuses(.expired)
    }

    // MARK: Clocks

    @Test func `TUF-27: raises a clock in 1970 to the build date`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.now = Timestamp(clamping: 0)
        try feed.offer(1, ["1.0.0"]) {
            $0.issuedAt = Day.number(-400)
            $0.expires = Day.number(-300)
        }
        try await device.refuses(.expired)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
    }

    @Test func `TUF-28: raises a clock that is behind to the latest signed time`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        try feed.offer(1, ["1.0.0"]) { $0.issuedAt = Day.number(30) }
        try await device.installs("1.0.0")
        device.now = Timestamp(clamping: 0)
        try feed.offer(2, ["1.1.0"]) { $0.expires = Day.number(29) }
        try await device.refuses(.expired)
        #expect(try device.memory().clock == Day.number(30))
    }

    @Test func `TUF-29: raises a clock that is behind to the time of a trust root`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        device.now = Timestamp(clamping: 0)
        try feed.publish(2) { $0.issued = Day.number(50) }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.expired, learnt: true)
        #expect(try device.memory().clock == Day.number(50))
    }

    @Test func `drops the time of a trust root if its successor was issued earlier`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.publish(2) {
            $0.issued = Day.number(200)
            $0.expires = Day.number(500)
        }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.expired, learnt: true)
        #expect(try device.memory().clock == Day.number(200))
        try feed.publish(3) { $0.issued = Day.number(10) }
        try await device.installs("1.1.0")
        #expect(try device.memory().clock == Day.number(10))
    }

    @Test func `drops the time of a trust root if a newer pinned root was issued earlier`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.publish(2) {
            $0.issued = Day.number(200)
            $0.expires = Day.number(500)
        }
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.expired, learnt: true)
        device.anchor = try feed.pinned(feed.trustRoot(3) { $0.issued = Day.number(10) })
        try await device.installs("1.1.0")
        #expect(try device.memory().clock == Day.number(10))
    }

    @Test func `TUF-30: stops only installations while the clock is far ahead`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        try feed.offer(2, ["1.1.0"])
        device.now = Day.number(20_000)
        try await device.refuses(.expired)
        try device.runs("v1.0.0")
        device.now = Day.number(10)
        try await device.installs("1.1.0")
    }

    // MARK: Freeze

    @Test func `TUF-31: accepts the same old document until it expires`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        for day in [11, 20, 39] {
            device.now = Day.number(day)
            try await device.stays(at: "v1.0.0")
        }
        device.now = Day.number(41)
        try await device.refuses(.expired)
    }

    @Test func `TUF-32: accepts a mirror without the next root until the known one expires`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        // The publisher has revoked the channel key in root 2, which this mirror does not show.
        for status in [404, 403, 410] {
            feed.server.set("/trust/2.json", Route([], status: status))
            try await device.stays(at: "v1.0.0")
        }
        try feed.offer(2, ["1.1.0"]) { $0.expires = Day.number(9_999) }
        device.now = Day.number(366)
        try await device.refuses(.expired)
    }

    @Test func `TUF-33: fails if the request for the next root fails`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(2, ["1.1.0"])
        feed.server.set("/trust/2.json", Route([], status: 500))
        try await device.refuses(.httpStatus)
        feed.server.set("/trust/2.json", Route().with { $0.raw = [] })
        try await device.refuses(.networkUnavailable)
    }

    // MARK: Documents that expire before they begin

    static let malformed: [Scenario] = [
        Scenario("TUF-34: a document expires in the second of its signature", .manifestMalformed) {
            try $0.offer(2, ["1.1.0"]) { $0.expires = $0.issuedAt }
        },
        Scenario("TUF-35: a document expires before its signature", .manifestMalformed) {
            try $0.offer(2, ["1.1.0"]) { ($0.issuedAt, $0.expires) = ($0.expires, $0.issuedAt) }
        },
        Scenario("TUF-36: a root expires in the second of its signature", .manifestMalformed) {
            try $0.publish(2) { $0.expires = $0.issued }
        },
        Scenario("TUF-37: a document without an expiry", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["expires"] = nil } })
        },
        Scenario("TUF-38: a document whose expiry has an offset", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["expires"] = .string("2027-03-01T00:00:00+00:00") } })
        },
    ]

    @Test(arguments: malformed) func `rejects documents with invalid times`(_ scenario: Scenario) async throws {
        try await scenario.run()
    }

    @Test func `TUF-313: reports an expired trust root to a publisher`() async throws {
        let feed = try TrustFeed()
        guard case .root(let root) = try feed.pinned() else { return try #require(Bool(false), "no root") }
        let fetcher = try Follower(feed).fetcher
        let newest = { (now: Timestamp) async throws in
            try await TrustChain.newest(after: root, inFeed: feed.server.url("/"), fetcher: fetcher, now: now)
        }
        #expect(try await newest(Day.number(364)).root.version == 1)
        let failure = await #expect(throws: UpdateFailure.self) { _ = try await newest(Day.number(365)) }
        #expect(failure?.code == .expired)
    }

    @Test func `TUF-316: rejects documents that expired before the build date`()
        async throws
    {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.anchor = .keys(TrustedKeys([feed.channel.trusted.keys[0], feed.release.trusted.keys[0]]))
        device.now = Timestamp(clamping: 0)
        try feed.offer(1, ["1.0.0"]) {
            $0.issuedAt = try Timestamp(parsing: "2026-01-01T00:00:00Z")
            $0.expires = try Timestamp(parsing: "2026-02-01T00:00:00Z")
        }
        try await device.refuses(.expired)
        try feed.offer(2, ["1.0.0"])
        try await device.installs("1.0.0")
    }
}
