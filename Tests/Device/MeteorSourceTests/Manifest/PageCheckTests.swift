import BundleValues
import MeteorSource
import Testing

@Suite("PageCheck") struct PageCheckTests {
    private static let good = RuntimeConfig(rootURL: "https://example.com/", appId: "app", pageVersion: "v1")

    private static func check(
        _ config: RuntimeConfig, appId: String? = "app", root: String? = "https://example.com"
    ) throws -> PageCheck.Accepted {
        let stored = PageCheck.KnownApplication(appId: appId, rootURL: try root.map { try FetchURL(parsing: $0) })
        return try PageCheck.check(config, version: try MeteorVersion(parsing: "v1"), stored: stored)
    }

    private static func refusal(
        _ config: RuntimeConfig, appId: String? = "app", root: String? = "https://example.com"
    ) throws -> UpdateFailure? {
        do {
            _ = try check(config, appId: appId, root: root)
            return nil
        } catch let error as PageRefusal {
            return error.failure
        }
    }

    @Test func `accepts a page of the same application and version`() throws {
        let accepted = try Self.check(Self.good)
        #expect(accepted.appId == "app")
        #expect(accepted.rootURL.description == "https://example.com/")
    }

    @Test func `accepts a page without a version`() throws {
        var config = Self.good
        config.pageVersion = nil
        #expect(try Self.check(config).appId == "app")
    }

    @Test func `N-01, SW-36: rejects a page of another version as versionMismatch`() throws {
        var config = Self.good
        config.pageVersion = "v-WRONG"
        let failure = try #require(try Self.refusal(config))
        #expect(failure.code == .versionMismatch)
        #expect(failure.code.exitStatus == 27)
        #expect(failure.message.contains("Version mismatch for index page, expected: v1, actual: v-WRONG"))
    }

    @Test(arguments: [nil, "", "example.com", "file:///etc", "ftp://h/", "http://", "http://a b/"] as [String?])
    func `SW-37: rejects a page without a server`(root: String?) throws {
        var config = Self.good
        config.rootURL = root
        let failure = try #require(try Self.refusal(config))
        #expect(failure.code == .unsuitableBundle)
        #expect(failure.message.contains("Could not find ROOT_URL"))
    }

    @Test(arguments: [
        ("http://localhost:3000/", "http://example.com", false), ("http://LOCALHOST/", "http://example.com", false),
        ("http://localhost:3000/", "http://localhost:4000", true), ("http://localhost:3000/", nil, true),
        ("http://127.0.0.1:3000/", "http://example.com", true), ("http://other.com", "http://example.com", true),
        ("http://other.com", "http://localhost", true),
    ])
    func `SW-38: rejects a page that leads a device from its server to localhost`(
        page: String, stored: String?, isTaken: Bool
    ) throws {
        var config = Self.good
        config.rootURL = page
        let failure = try Self.refusal(config, root: stored)
        #expect((failure == nil) == isTaken)
        #expect(failure.map { $0.message.contains("would change current ROOT_URL to localhost") } ?? isTaken)
    }

    @Test func `SW-39: rejects a page without an application`() throws {
        var config = Self.good
        config.appId = nil
        #expect(try #require(try Self.refusal(config)).message.contains("Could not find appId"))
    }

    @Test func `SW-40: rejects a page of another application if one is known`() throws {
        let failure = try #require(try Self.refusal(Self.good, appId: "other"))
        #expect(failure.code == .unsuitableBundle)
        #expect(failure.message.contains("does not match current appId"))
        #expect(try Self.refusal(Self.good, appId: nil) == nil)
    }

    @Test func `reports the first problem`() throws {
        var config = RuntimeConfig(rootURL: nil, appId: nil, pageVersion: "v2")
        #expect(try Self.refusal(config)?.code == .versionMismatch)
        config.pageVersion = "v1"
        #expect(try #require(try Self.refusal(config)).message.contains("ROOT_URL"))
        config.rootURL = "http://localhost"
        #expect(try #require(try Self.refusal(config)).message.contains("localhost"))
        config.rootURL = "http://example.com"
        #expect(try #require(try Self.refusal(config)).message.contains("Could not find appId"))
        config.appId = "x"
        #expect(try #require(try Self.refusal(config)).message.contains("does not match current appId"))
    }
}
