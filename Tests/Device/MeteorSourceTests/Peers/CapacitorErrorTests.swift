import BundleValues
import BundleTestTraits
import BundleTesting
import MeteorTesting
import Testing

/// Tests the errors of the Capacitor plugin's manager (METEOR section 8.5). If a changed server can explain a failure,
/// the manifest is requested once more.
@Suite("CapacitorError", .ownThread)
struct CapacitorErrorTests {
    /// Returns the failure of an update whose asset at `held` is sent after the page, so that both are requested.
    private func failure(_ device: PushedDevice, holding held: String) async throws -> UpdateFailure {
        let gate = try Gate()
        device.server.fault(held, .hold(gate), times: 1)
        let update = Task { try await device.failure() }
        while device.requests["/__cordova/"] == nil { try await Task.sleep(for: .milliseconds(5)) }
        gate.open()
        return try #require(try await update.value)
    }

    @Test("SW-34: fails for a missing asset")
    func missingAsset() async throws {
        let bundle = try MeteorBundle.capacitor("v1", ["app/missing.js": "nowhere"])
        let device = try PushedDevice.capacitor(bundle.keeping { _ in false })
        try device.restart()
        let failure = try await failure(device, holding: "/app/missing.js")
        #expect(failure.code == .httpStatus)
        #expect(failure.message.hasPrefix("Non-success status code 404 for asset: /app/missing.js"))
        #expect(device.requests == expectedRequests("/app/missing.js", manifest: 2))
        try device.expectNothingCame()
    }

    @Test("SW-35: fails for an asset whose bytes are right and whose label belongs to other content")
    func otherLabel() async throws {
        let device = try PushedDevice.capacitor(try .capacitor("v1", ["app/main.js": "main()"]))
        try device.restart()
        let gate = try Gate()
        let zeros = "\"\(String(repeating: "0", count: 40))\""
        device.server.fault("/app/main.js", .all([.entityTag(zeros), .hold(gate)]))
        let update = Task { try await device.failure() }
        while device.requests["/__cordova/"] == nil { try await Task.sleep(for: .milliseconds(5)) }
        gate.open()
        let failure = try #require(try await update.value)
        #expect(failure.code == .digestMismatch)
        #expect(failure.message.hasPrefix("Hash mismatch for asset: /app/main.js"))
        #expect(device.requests == expectedRequests("/app/main.js", manifest: 2))
        try device.expectNothingCame()
    }

    struct Page: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let code: FailureCode
        let message: String
        var storedRootURL = CapacitorBundles.rootURL
        let change: @Sendable (inout IndexPage) -> Void
    }

    @Test(
        "rejects a page that does not belong to the application",
        arguments: [
            Page(
                testDescription: "SW-36: version", code: .versionMismatch,
                message: "Version mismatch for index page, expected: v1, actual: v-WRONG"
            ) { $0.version = "v-WRONG" },
            Page(testDescription: "SW-37: no server", code: .unsuitableBundle, message: "Could not find ROOT_URL") {
                $0.rootURL = nil
            },
            Page(
                testDescription: "SW-38: localhost", code: .unsuitableBundle,
                message: "would change current ROOT_URL to localhost", storedRootURL: "http://example.com"
            ) { $0.rootURL = "http://localhost:3000" },
            Page(testDescription: "SW-39: no application", code: .unsuitableBundle, message: "Could not find appId") {
                $0.appId = nil
            },
            Page(
                testDescription: "SW-40: another application", code: .unsuitableBundle,
                message: "the appId \"other-app\" of the downloaded bundle does not match current appId \"test-app-id\""
            ) { $0.appId = "other-app" },
        ])
    func wrongPage(_ page: Page) async throws {
        let seed = try MeteorBundle.capacitor("v-initial") { $0.page.rootURL = page.storedRootURL }
        let device = try PushedDevice.capacitor(
            seed: seed,
            try .capacitor("v1") { builder in
                builder.page.rootURL = page.storedRootURL
                page.change(&builder.page)
            })
        try device.restart()
        let failure = try #require(try await device.failure())
        #expect(failure.code == page.code)
        #expect(failure.message.contains(page.message), "\(failure.message)")
        #expect(device.requests == expectedRequests(manifest: page.code == .versionMismatch ? 2 : 1))
        try device.expectNothingCame()
    }

    @Test("SW-41: fails after one error response to the manifest")
    func manifestFailure() async throws {
        let device = try PushedDevice.capacitor(try .capacitor("v1", ["app/main.js": "main()"]))
        try device.restart()
        device.server.fault("/manifest.json", .status(500))
        let failure = try #require(try await device.failure())
        #expect(failure.code == .httpStatus)
        #expect(failure.message.hasPrefix("Non-success status code 500 for asset manifest"))
        #expect(device.requests == expectedRequests(page: 0))
        try device.expectNothingCame()
    }

    @Test("SW-42: ignores a missing source map")
    func missingSourceMap() async throws {
        let bundle = try MeteorBundle.capacitor("v1", ["app/main.js": "main()"]) { builder in
            builder.entries[0].sourceMap = .init(.text("{}"))
        }
        let device = try PushedDevice.capacitor(bundle.keeping { $0.path == "app/main.js" })
        try device.restart()
        try await device.update()
        let map = try #require(bundle.entry("app/main.js")?.sourceMapURL)
        #expect(device.requests == expectedRequests("/app/main.js", map))
        try device.reload()
        #expect(try device.pageVersion() == "v1")
        #expect(try device.served("/app/main.js") == Array("main()".utf8))
        #expect(try device.served(map) == nil)
        #expect(device.stored("app/main.js.map", of: "v1") == nil)
        #expect(device.warningLines == [], "a missing source map is not reported")
    }
}
