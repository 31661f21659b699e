import BundleValues
import BundleTestTraits
import BundleTesting
import MeteorSource
import MeteorTesting
import Testing

/// Tests groups H to P of the Cordova suite (METEOR section 8.3). Of each pair, (a) is the code and message of the
/// failure, and (b) is that nothing becomes pending or ready. `expectRefusal` checks both.
@Suite("Cordova suite: refusals", .ownThread)
struct CordovaRefusalTests {
    let device: PushedDevice
    let fixtures: CordovaFixtures

    init() throws {
        (device, fixtures) = try PushedDevice.cordova()
        try device.restart()
    }

    private func serve(_ version: CordovaVersion) throws { try device.server.serve(version: version.rawValue) }

    /// Expects that no file was requested twice after the wrong one ended the run. The manifest is requested again in
    /// case the server has a newer version.
    private func expectOneTry(of path: String) {
        let others = Requests.of(
            fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: .version2), "/some-file", "/some-other-file")
        let certain = device.requests.filter { others[$0.key] == nil }
        #expect(certain == Requests.of("/manifest.json", "/manifest.json", "/", path))
        #expect(device.requests.filter { others[$0.key] != nil }.values.allSatisfy { $0 == 1 })
    }

    @Test("CW-44a, CW-44b: rejects a missing asset")
    func missingAsset() async throws {
        try serve(.missingAsset)
        try await device.expectRefusal(
            .httpStatus, "Non-success status code 404 for asset: /app/template.mobileapp.js")
        expectOneTry(of: "/app/template.mobileapp.js")
    }

    @Test("CW-45a, CW-45b: rejects an asset with other content")
    func invalidAsset() async throws {
        try serve(.invalidAsset)
        try await device.expectRefusal(.digestMismatch, "Hash mismatch for asset: /app/template.mobileapp.js")
        expectOneTry(of: "/app/template.mobileapp.js")
    }

    @Test("CW-46a, CW-46b: rejects a page of another version")
    func versionMismatch() async throws {
        try serve(.versionMismatch)
        try await device.expectRefusal(
            .versionMismatch, "expected: version2, actual: version3",
            requests: Requests.of("/manifest.json", "/manifest.json", "/"))
    }

    @Test("CW-47a, CW-47b: rejects a page without ROOT_URL")
    func missingRootURL() async throws {
        try serve(.missingRootURL)
        try await device.expectRefusal(
            .unsuitableBundle, "Could not find ROOT_URL", requests: Requests.of("/manifest.json", "/"))
    }

    @Test("CW-48a, CW-48b: rejects a page that leads from another host to localhost")
    func wrongRootURL() async throws {
        try serve(.loopbackRootURL)
        try await device.activate()
        #expect(try device.pageVersion() == "127.0.0.1_root_url")
        try serve(.wrongRootURL)
        try await device.expectRefusal(
            .unsuitableBundle, "would change current ROOT_URL to localhost",
            requests: Requests.of("/manifest.json", "/"))
    }

    @Test("CW-49a, CW-49b: rejects a page without appId")
    func missingAppId() async throws {
        try serve(.missingAppId)
        try await device.expectRefusal(
            .unsuitableBundle, "Could not find appId", requests: Requests.of("/manifest.json", "/"))
    }

    @Test("CW-50a, CW-50b: rejects a page of another application")
    func wrongAppId() async throws {
        try serve(.wrongAppId)
        try await device.expectRefusal(
            .unsuitableBundle, "does not match current appId", requests: Requests.of("/manifest.json", "/"))
    }

    @Test("CW-51a, CW-51b: rejects a manifest without a compatibility version")
    func missingCompatibility() async throws {
        try serve(.missingCompatibility)
        try await device.expectRefusal(
            .manifestMalformed, "does not have a cordovaCompatibilityVersion", requests: Requests.of("/manifest.json"))
    }

    @Test("CW-52a, CW-52b: rejects a bundle for another shell")
    func differentCompatibility() async throws {
        try serve(.differentCompatibility)
        try await device.expectRefusal(
            .unsuitableBundle, "potentially incompatible", requests: Requests.of("/manifest.json"))
    }
}
