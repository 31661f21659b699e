import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `fleet page`, run as the built program.
@Suite(.ownThread) struct PageCommandTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded("published")
        try site.publish("1.1.0", ["--rollout", "5%"]).succeeded("published")
    }

    private var out: String { site.folder.file("page.html") }

    private func page(_ more: String...) throws -> Outcome {
        try Clientctl.run(["fleet", "page", "--out", out, "--feed", site.feed, "--json"] + more)
    }

    private func html() throws -> String { String(decoding: try contents(ofFile: out), as: UTF8.self) }

    @Test func `fleet page shows the feed as verified with the trust root`() throws {
        let done = try page("--trust", site.pinned).succeeded("written")
        let channel = done["channels"]?.arrayValue?.first?.objectValue
        #expect(channel?["channel"] == .string("stable") && channel?["verified"] == .bool(true))
        #expect(channel?["releases"] == .integer(2) && done["warnings"] == .array([]))
        let html = try html()
        #expect(done["bytes"] == .integer(html.utf8.count))
        #expect(
            html.contains("Releases of \(ChannelSite.appId)") && html.contains("<b>1.1.0</b> is for 5% of the devices"))
        let root = try site.id("root3")
        #expect(html.contains("Trust root 1") && html.contains(root))
        #expect(!html.contains("not verified") && !html.contains("not trusted"))
        #expect(try page().succeeded("written")["channels"]?.arrayValue?.first?.objectValue?["verified"] == .null)
        #expect(try self.html().contains("not verified"))
    }

    @Test func `fleet page shows the future steps of a ramp`() throws {
        try site.release("rollout", "--ramp", "1%,10%,100%", "--every", "1d", "--version", "1.1.0").succeeded("changed")
        try page().succeeded("written")
        let html = try html()
        #expect(html.contains("<b>1.1.0</b> is for 1% of the devices, 10% from ") && html.contains(", 100% from "))
    }

    @Test func `fleet page marks a channel that the trusted keys do not verify`() throws {
        let outcome = try page("--trust", site.pub("new")).succeeded("written")
        #expect(outcome["channels"]?.arrayValue?.first?.objectValue?["verified"] == .bool(false))
        #expect(
            outcome["warnings"]?.arrayValue?.first?.stringValue?.contains("channel stable is not trusted") == true)
        #expect(outcome.errors.contains("channel stable is not trusted"))
        #expect(try html().contains("not trusted"))
    }

    @Test func `fleet page shows reports of devices, and works without a Prometheus engine`() throws {
        let engine = try LoopbackServer { request in
            let isRange = request.target.contains("query_range")
            let labels = #""version":"1.1.0","fact":"failed","code":"healthFailed""#
            let values = isRange ? #""values":[[1800000000,"1"],[1800003600,"4"]]"# : #""value":[1800000000,"4"]"#
            return Route(
                bytes(
                    #"{"status":"success","data":{"resultType":"\#(isRange ? "matrix" : "vector")","#
                        + #""result":[{"metric":{\#(labels)},\#(values)}]}}"#))
        }
        let server = "http://127.0.0.1:\(engine.port)/"
        #expect(try page("--prometheus", server).succeeded("written")["warnings"] == .array([]))
        #expect(try html().contains("4 failed (healthFailed 4)") && html().contains("<polyline"))
        #expect(engine.requests.count == 2)
        #expect(engine.requests.allSatisfy { $0.target.contains("channel%3D%22stable%22") })
        engine.stop()
        let without = try page("--prometheus", server).succeeded("written")
        #expect(without["warnings"]?.arrayValue?.count == 1)
        let html = try html()
        #expect(
            html.contains("The page does not show the reports of devices.") && html.contains("<b>1.0.0</b> is live"))
        let wrong = try LoopbackServer(["/": Route(bytes("{}"))])
        #expect(
            try page("--prometheus", "http://127.0.0.1:\(wrong.port)").succeeded()["warnings"]?.arrayValue?.count == 1)
    }

    @Test func `fleet page replaces a file atomically and rejects anything else`() throws {
        try site.folder.write(bytes("before"), to: "page.html")
        let before = try #require(try FileIdentity(out))
        try page().succeeded("written")
        let after = try #require(try FileIdentity(out))
        #expect(after != before)
        #expect(try html().hasPrefix("<!doctype html>"))
        try Clientctl.stock(["ln", "-sf", "elsewhere", out])
        try page().failed(78, "configInvalid")
        try Clientctl.stock(["rm", out])
        try site.folder.makeFolder("page.html")
        try page().failed(78, "configInvalid")
        #expect(access(site.folder.file("elsewhere"), F_OK) != 0)
        try Clientctl.run(["fleet", "page", "--out", site.folder.file("none/x"), "--feed", site.feed, "--json"])
            .failed(78, "configInvalid")
        try Clientctl.run(["fleet", "page", "--out", "x/", "--feed", site.feed, "--json"]).failed(64, "usage")
        try Clientctl.run(["fleet", "page", "--out", out, "--feed", site.folder.file("none"), "--json"])
            .failed(78, "configInvalid")
    }
}

/// The inode of a file.
private struct FileIdentity: Equatable {
    let number: UInt64

    init?(_ path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        number = UInt64(status.st_ino)
    }
}
