import BundleCore
import BundleValues
import ArchiveSource
import BundleSigning
import BundleTesting
import Testing

@Suite struct BindingTests {
    static let unnamed: [Scenario] = [
        Scenario("TUF-229: the document of another channel", .manifestMalformed) { feed in
            var document = feed.document(2, [try feed.release("1.1.0")])
            document.channel = "beta"
            feed.serve(try ChannelFormat.envelope(document).signed(by: [feed.channel]).document)
        },
        Scenario("TUF-230: a document with an invalid channel name", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["channel"] = .string("../stable") } })
        },
        Scenario("TUF-231: a document of schema 2", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["schema"] = .integer(2) } })
        },
        Scenario("TUF-232: a document without a sequence", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["sequence"] = nil } })
        },
        Scenario("TUF-233: a document with an empty application", .manifestMalformed) { feed in
            try feed.offer(2, payload: { try edited($0) { $0["appId"] = .string("") } })
        },
        Scenario("TUF-234: a version twice", .manifestMalformed) { feed in
            try feed.offer(2, ["1.1.0", "1.1.0"])
        },
    ]

    @Test(arguments: unnamed) func `rejects a document for another channel or schema`(_ scenario: Scenario) async throws
    {
        try await scenario.run()
    }

    static let named: [Scenario] = [
        Scenario("TUF-235: of the device's application", nil) { try $0.offer(2, ["1.1.0"]) },
        Scenario("TUF-236: of another application", .appMismatch) {
            try $0.offer(2, ["1.1.0"]) { $0.appId = "org.example.other" }
        },
        Scenario("TUF-237: without an application", .appMismatch) { try $0.offer(2, ["1.1.0"]) { $0.appId = nil } },
        Scenario("TUF-238: of an application that differs in case", .appMismatch) {
            try $0.offer(2, ["1.1.0"]) { $0.appId = "org.example.App" }
        },
        Scenario("TUF-239: the next root has no application", .appMismatch) { feed in
            try feed.publish(2) { $0.appId = nil }
        },
    ]

    @Test(arguments: named) func `accepts only documents for the device's application`(_ scenario: Scenario)
        async throws
    {
        try await scenario.run(appId: "org.example.app")
    }

    @Test func `TUF-240: rejects a release of another application in a valid document`() async throws {
        try await Scenario("", .appMismatch) { feed in
            try feed.offer(feed.document(2, [try feed.release("1.1.0") { $0.appId = "org.example.other" }]))
        }.run(appId: "org.example.app", learnt: true)
    }

    @Test func `TUF-241: rejects a trust root of another application before any request`() async throws {
        let feed = try TrustFeed(appId: "org.example.app")
        var device = try Follower(feed)
        device.appId = "org.example.other"
        try feed.offer(1, ["1.0.0"])
        try await device.refuses(.appMismatch)
        #expect(feed.server.requests.isEmpty)
    }

    @Test func `TUF-242: uses the application of the trust root if the device has none`() async throws {
        let feed = try TrustFeed(appId: "org.example.app")
        var device = try Follower(feed)
        device.appId = nil
        try feed.offer(1, ["1.0.0"]) { $0.appId = nil }
        try await device.refuses(.appMismatch)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
    }

    @Test func `TUF-243: rejects a flat manifest without the application of the trust root`() async throws {
        let feed = try TrustFeed(appId: "org.example.app")
        var device = try Follower(feed)
        device.appId = nil
        device.path = "/manifest.json"
        for other in ["org.example.other", nil] {
            try feed.offerFlat("1.0.0") { $0.appId = other }
            try await device.refuses(.appMismatch, learnt: other != nil)
        }
        try feed.offerFlat("1.0.0")
        try await device.installs("1.0.0")
    }

    @Test func `TUF-244: rejects another application for a bound store`() async throws {
        let feed = try TrustFeed(appId: "org.example.app")
        var device = try Follower(feed)
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        let other = try TrustFeed(appId: "org.example.other")
        device.anchor = try other.pinned(other.trustRoot(2))
        device.source = .channel(try other.server.url("/channels/stable.json"))
        try other.offer(2, ["1.1.0"])
        for appId in ["org.example.other", nil] {
            device.appId = appId
            try await device.refuses(.appMismatch)
        }
    }
}
