import BundleCore
import BundleServe
import BundleTestTraits
import BundleTesting
import BundleValues
@testable import BundleShell
@testable import ClientServer
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

    @Test func `describes the client that is ready in its event`() async throws {
        let fixture = try await LoopbackFixture()
        let token = try await fixture.page()
        try await fixture.install("2.0.0")
        try await fixture.shell.checkForUpdates()
        let ready = try #require(try await status(fixture, token)["ready"]?.objectValue)
        let events = try await fixture.host.events(token: token)
        fixture.bridge.finish()
        let event = try #require(await events.first { $0.name == "updateAvailable" })
        #expect(event.data["version"]?.stringValue == "2.0.0")
        #expect(event.data["size"] == ready["size"] && event.data["size"]?.integerValue ?? 0 > 0)
        #expect(event.data["notes"] == .null && event.data["urgent"] == .bool(false))
    }

    @Test func `reports the progress of a download to pages`() async throws {
        let fixture = try await LoopbackFixture()
        let events = try await fixture.host.events(token: try await fixture.page())
        fixture.host.pass(.downloading(bytes: 3, of: 9))
        fixture.host.pass(.downloading(bytes: 5, of: nil))
        fixture.bridge.finish()
        var seen: [JSONObject] = []
        for await event in events where event.name == "downloadProgress" { seen.append(event.data) }
        #expect(seen == [["bytes": .integer(3), "of": .integer(9)], ["bytes": .integer(5), "of": .null]])
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

    @Test func `names the client that waits for its second trial in the results of a check`() async throws {
        let fixture = try await LoopbackFixture(installed: "1.0.0")
        _ = try await fixture.host.call(
            "startupDidFail", token: try await fixture.page(), body: ["reason": .string("no data")])
        let token = try await fixture.page()
        let after = try await status(fixture, token)
        #expect(member(after, "lastFailure", "retryAt")?.hasSuffix("Z") == true)
        let events = try await fixture.host.events(token: token)
        let running = Task { await fixture.host.run() }
        let outcome = try await fixture.host.call("checkForUpdates", token: token, body: [:])
        #expect(outcome["outcome"] == .string("waiting") && outcome["version"] == .string("1.0.0"))
        #expect(
            outcome["message"]?.stringValue?.hasPrefix("v1.0.0 failed once, and is tried once more") == true)
        let refusal = await #expect(throws: CallRefusal.self) { try await fixture.reload(token) }
        #expect(refusal?.code == "noPendingVersion")
        #expect(refusal?.message == outcome["message"]?.stringValue)
        for await event in events where event.name == "upToDate" {
            #expect(event.data["version"] == .string("embedded"))
            #expect(event.data["waiting"]?.objectValue?["version"] == .string("1.0.0"))
            break
        }
        running.cancel()
    }
}
