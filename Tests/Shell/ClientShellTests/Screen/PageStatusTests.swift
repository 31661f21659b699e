import BundleCore
import BundleServe
import BundleTestTraits
import BundleTesting
import BundleValues
@testable import ClientShell
import Testing

@Suite struct PageStatusTests {
    /// Calls `getStatus` of a page of the running client.
    private func status(_ fixture: LoopbackFixture, _ token: String) async throws -> JSONObject {
        try await fixture.host.call("getStatus", token: token, body: [:])
    }

    private func member(_ status: JSONObject, _ name: String, _ member: String = "version") -> String? {
        status[name]?.objectValue?[member]?.stringValue
    }

    @Test func `describes the seed of an empty store`() async throws {
        let fixture = try await LoopbackFixture()
        let status = try await status(fixture, try await fixture.page())
        #expect(status["running"] == .object(["version": .string("embedded"), "state": .string("seed")]))
        #expect(status["ready"] == .null && status["lastFailure"] == .null && status["installed"] == .array([]))
        #expect(status["rolledBack"] == .bool(false))
        #expect(member(status, "running", "state") == "seed")
        #expect(status["shell"]?.stringValue == "1.0.0")
    }

    @Test func `names the client that is ready and those that are installed`() async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let token = try await fixture.page()
        _ = try await fixture.host.call("startupDidComplete", token: token, body: [:])
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let status = try await status(fixture, token)
        #expect(member(status, "running") == "1.0.0" && member(status, "running", "state") == "good")
        #expect(member(status, "running", "confirmedAt") != nil)
        #expect(member(status, "ready") == "2.0.0" && member(status, "ready", "state") == "staged")
        #expect(status["installed"]?.arrayValue?.count == 2)
    }

    @Test func `names the failure of the client that was rolled back`() async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        let failing = try await fixture.page()
        _ = try await fixture.host.call(
            "startupDidFail", token: failing, body: ["reason": .string("no data")])
        let token = try await fixture.page()
        let after = try await status(fixture, token)
        #expect(member(after, "running") == "embedded")
        #expect(member(after, "lastFailure") == "1.0.0" && member(after, "lastFailure", "cause") == "reported")
        #expect(member(after, "lastFailure", "message")?.contains("no data") == true)
        #expect(after["rolledBack"] == .bool(true))
    }
}
