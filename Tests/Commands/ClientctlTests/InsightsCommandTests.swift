import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// `fleet insights`, run as the built program.
@Suite(.ownThread) struct InsightsCommandTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded("published")
        try site.publish("1.1.0", ["--rollout", "25%"]).succeeded("published")
    }

    private func insights(_ server: String, _ more: [String] = [], version: String = "1.1.0") throws -> Outcome {
        try Clientctl.run(
            [
                "fleet", "insights", "--version", version, "--feed", site.feed, "--channel", "stable",
                "--prometheus", server,
            ] + more)
    }

    private static func vector(_ series: [(labels: String, count: Int)]) -> Route {
        let result = series.map { #"{"metric":{\#($0.labels)},"value":[1700000000,"\#($0.count)"]}"# }
        return Route(
            bytes(
                #"{"status":"success","data":{"resultType":"vector","result":[\#(result.joined(separator: ","))]}}"#))
    }

    /// An engine that returns the same counts for every query, by version and in total.
    private static func engine(confirmed: Int = 500, failed: Int = 1) throws -> LoopbackServer {
        let version = #""version":"1.1.0""#
        let all = [
            (#"\#(version),"fact":"installed","route":"delta""#, 400),
            (#"\#(version),"fact":"installed","route":"archive""#, 120), (#"\#(version),"fact":"started""#, 510),
            (#"\#(version),"fact":"confirmed""#, confirmed),
            (#"\#(version),"fact":"failed","code":"health\u001bFailed""#, failed),
            (#"\#(version),"fact":"rolledBack""#, 1), (#""version":"1.0.0","fact":"confirmed""#, 2000),
        ]
        let facts = [(#""fact":"confirmed""#, confirmed), (#""fact":"failed""#, failed)]
        return try LoopbackServer { vector($0.target.contains("route") ? all : facts) }
    }

    @Test func `insights shows reports by route and code, and the guard's decision`() throws {
        let engine = try Self.engine()
        let outcome = try insights("http://127.0.0.1:\(engine.port)/", ["--json", "--trust", site.pub("channel")])
        #expect(outcome.status == 0)
        let counts = ["installed", "started", "confirmed", "failed", "rolledBack", "blocked"].map {
            outcome[$0]?.integerValue
        }
        #expect(counts == [520, 510, 500, 1, 1, 0])
        #expect(
            outcome.string("rollout") == "25%" && outcome["paused"] == .bool(false)
                && outcome["recalled"] == .bool(false))
        #expect(
            outcome["fleet"] == .integer(2000) && outcome.string("share") == "25%"
                && outcome.string("installedShare") == "26%")
        let routes = (outcome["routes"]?.arrayValue ?? []).compactMap(\.objectValue)
        #expect(routes.map { $0["route"] } == [.string("delta"), .string("archive")])
        #expect(routes.map { $0["installs"] } == [.integer(400), .integer(120)])
        #expect((routes.last?["bytes"]?.integerValue ?? 0) % 120 == 0 && routes.last?["bytes"] != .integer(0))
        let guarding = outcome["guard"]?.objectValue
        #expect(guarding?["finding"] == .string("fewEnough") && guarding?["missing"] == .null)
        #expect(guarding?["good"] == .integer(500) && guarding?["bound"] == .string("1%"))
        let plain = try insights("http://127.0.0.1:\(engine.port)")
        #expect(
            plain.text.hasPrefix("1.1.0 in channel stable: for 25% of the devices\n  installed   520 (400 by delta"))
        #expect(plain.text.contains("  failed      1 (1 health\\x1BFailed)\n"))
        #expect(plain.text.contains("confirmed: 500 of 2000 (25%); installed: 520 of 2000 (26%)"))
        #expect(plain.text.contains("few enough starts fail: at most 2% may") && plain.text.contains("fewer than 1%"))
        #expect(!plain.text.contains("\u{1B}"))
    }

    @Test func `insights shows the devices of a release by its ramp and groups`() throws {
        let engine = try Self.engine()
        let server = "http://127.0.0.1:\(engine.port)"
        try site.release("rollout", "--ramp", "10%,100%", "--every", "1d", "--version", "1.1.0").succeeded("changed")
        #expect(try insights(server, ["--json"]).string("rollout") == "10%")
        #expect(try insights(server).text.hasPrefix("1.1.0 in channel stable: for 10% of the devices\n"))
        try site.release("target", "qa", "--only", "--version", "1.1.0").succeeded("changed")
        let outcome = try insights(server, ["--json"])
        #expect(outcome["groups"] == .array([.string("qa")]) && outcome["only"] == .bool(true))
        #expect(try insights(server).text.hasPrefix("1.1.0 in channel stable: for the group qa alone\n"))
        let listed = try Clientctl.run(["channel", "list", "--feed", site.feed, "--channel", "stable"]).text
        #expect(listed.contains("1.1.0  the group qa alone  shells"))
    }

    @Test func `insights judges with the thresholds of the guard flags`() throws {
        let engine = try Self.engine(confirmed: 70, failed: 3)
        let server = "http://127.0.0.1:\(engine.port)"
        func finding(_ more: String...) throws -> JSONObject? {
            try insights(server, ["--json"] + more)["guard"]?.objectValue
        }
        #expect(try finding()?["finding"] == .string("undecided"))
        #expect(try (finding()?["missing"]?.integerValue ?? 0) > 0)
        #expect(try finding("--max-failures", "20%")?["finding"] == .string("fewEnough"))
        #expect(try finding("--allow-failures", "2")?["finding"] == .string("tooMany"))
        try insights(server, ["--json", "--max-failures", "50%"]).failed(64, "usage")
    }

    @Test func `insights ends with 61 when no device reported the release`() throws {
        let engine = try LoopbackServer { _ in Self.vector([]) }
        let server = "http://127.0.0.1:\(engine.port)"
        let outcome = try insights(server, ["--json"])
        #expect(outcome.status == 61)
        #expect(outcome["installed"] == .null && outcome["guard"] == .null && outcome["routes"] == .array([]))
        #expect(try insights(server).text.contains("no device reported it"))
        let other = try insights(server, ["--json"], version: "9.9.9")
        #expect(other.status == 61 && other["rollout"] == .null)
        try site.release("recall", "--version", "1.1.0", "--reason", "bad").succeeded("changed")
        #expect(try insights(server, ["--json"])["recalled"] == .bool(true))
        engine.stop()
        try insights(server, ["--json"]).failed(10, "networkUnavailable")
        try insights(server, ["--json", "--trust", site.pub("new")]).failed(20, "keyUnknown")
    }
}
