import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Reports of devices and the host that counts them, with the built programs.
@Suite(.ownThread) struct ReportTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded("published")
    }

    private func store(_ device: String) -> String { site.folder.file("store-\(device)") }

    private func install(_ device: String, _ more: [String]) throws -> Outcome {
        try Clientctl.run(
            [
                "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--store",
                store(device), "--shell-version", "1.5.0", "--app-id", ChannelSite.appId, "--device-id", device,
                "--json",
            ] + more)
    }

    private func report(_ device: String, to url: String, _ more: [String] = []) throws -> Outcome {
        try Clientctl.run(["report", "--store", store(device), "--report", url, "--json"] + more)
    }

    @Test func `report refuses a store that does not exist, and does not create it`() throws {
        try report("nobody", to: "http://127.0.0.1:1/report").failed(78, "configInvalid")
        try Clientctl.run(["report", "--store", store("nobody"), "--off", "--json"]).failed(78, "configInvalid")
        #expect(access(store("nobody"), F_OK) != 0)
    }

    private func start(_ device: String, failing: Bool = false) throws {
        let launched = try Clientctl.run(
            ["launch", "--store", store(device), "--shell-version", "1.5.0", "--json"]
        ).succeeded()
        let verdict = [
            "--store", store(device), "--version", launched.string("version") ?? "", "--token",
            launched.string("token") ?? "", "--json",
        ]
        if failing {
            try Clientctl.run(["fail", "--reason", "white screen of Anne"] + verdict).succeeded()
        } else {
            try Clientctl.run(["confirm"] + verdict).succeeded("confirmed")
        }
    }

    private func counted(_ host: Hosting) throws -> [String: Double] {
        ServeRun.samples(in: try host.ask("/metrics").text)
    }

    private func key(_ fact: String, _ version: String = "1.0.0", code: String = "", route: String = "") -> String {
        #"clientctl_reports_total{channel="stable",version="\#(version)",fact="\#(fact)",code="\#(code)",route="\#(route)"}"#
    }

    private func post(_ host: Hosting, _ body: String, _ fields: [String] = []) throws -> RawResponse {
        let connection = try RawConnection(port: host.port)
        let type = fields.contains { $0.hasPrefix("Content-Type") } ? [] : ["Content-Type: application/json"]
        connection.send(
            "POST /report HTTP/1.1\r\nHost: 127.0.0.1:\(host.port)\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n" + (type + fields).map { $0 + "\r\n" }.joined() + "\r\n"
                + body)
        return try connection.receiveAnswer()
    }

    private static let one =
        #"{"schema":1,"appId":null,"dropped":2,"reports":[{"id":"0123456789abcdef0123456789abcdef","fact":"installed","version":"1.0.0","channel":"stable","previous":null,"route":"archive","code":null}]}"#

    @Test func `host counts reports of a release and keeps the totals over restarts`() throws {
        let counts = site.folder.file("counts.json")
        var host = try Hosting(site.feed, ["--reports", counts])
        for device in ["a", "b", "c"] {
            try install(device, ["--report", host.url + "report"]).succeeded("installed")
            try start(device, failing: device == "c")
            try report(device, to: host.url + "report").succeeded("reported")
        }
        let sums = try counted(host)
        #expect(sums[key("installed", route: "archive")] == 3)
        #expect(sums[key("started")] == 3)
        #expect(sums[key("confirmed")] == 2)
        #expect(sums[key("failed", code: "reported")] == 1)
        try report("a", to: host.url + "report").succeeded("nothingToReport")
        host.program.send(SIGKILL)
        _ = try host.program.wait(within: .seconds(60))
        host = try Hosting(site.feed, ["--reports", counts])
        #expect(try counted(host) == sums)
        try start("c", failing: true)
        try report("c", to: host.url + "report").succeeded("reported")
        // The metrics are at most a second old.
        let deadline = ContinuousClock.now + .seconds(60)
        while try counted(host)[key("blocked", code: "failedStarts")] != 1 {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
        #expect(try counted(host)[key("failed", code: "reported")] == 1)
    }

    @Test func `host warns that open metrics reveal the size of the fleet`() throws {
        let reports = ["--reports", site.folder.file("counts.json"), "--bind", "0.0.0.0"]
        let token = try site.folder.write(bytes("feed-token-of-the-fleet"), to: "token")
        chmod(token, 0o600)
        for (more, isSaid) in [([], true), (["--token-file", token], false)] {
            let host = try Hosting(site.feed, reports + more)
            #expect(try host.stop().errors.contains("the size of the fleet") == isSaid)
        }
        let here = try Hosting(site.feed, Array(reports.prefix(2)))
        #expect(try !here.stop().errors.contains("the size of the fleet"))
    }

    @Test func `report keeps undelivered reports, and host counts a repeated message once`() throws {
        try install("a", ["--report", "http://127.0.0.1:1/report"]).succeeded("installed")
        try report("a", to: "http://127.0.0.1:1/report").failed(10, "networkUnavailable")
        // A receiver that stores the message but sends no response.
        let silent = try LoopbackServer { _ in
            var route = Route()
            route.raw = []
            return route
        }
        try report("a", to: "http://127.0.0.1:\(silent.port)/report").failed(10, "networkUnavailable")
        let message = try #require(silent.requests.first?.body)
        let host = try Hosting(site.feed, ["--reports", site.folder.file("counts.json")])
        #expect(try post(host, String(decoding: message, as: UTF8.self)).status == 200)
        try report("a", to: host.url + "report").succeeded("reported")
        let sums = try counted(host)
        #expect(sums[key("installed", route: "archive")] == 1)
        #expect(sums["clientctl_reports_repeated_total"] == 1)
    }

    @Test func `devices send exactly these reports, and none without --report`() throws {
        let receiver = try LoopbackServer { _ in Route(bytes("{}")) }
        let url = "http://127.0.0.1:\(receiver.port)/report"
        try install("anne", []).succeeded("installed")
        try start("anne")
        #expect(receiver.requests.isEmpty)
        #expect(
            try Clientctl.run(["report", "--store", store("anne"), "--off", "--json"]).succeeded("off").status == 0)
        try site.publish("1.1.0").succeeded("published")
        try install("anne", ["--report", url]).succeeded("installed")
        try start("anne", failing: true)
        try report("anne", to: url).succeeded("reported")
        #expect(receiver.requests.count == 2)
        let version = try #require(try Clientctl.run(["--version"]).text.split(separator: "\n").first)
        for request in receiver.requests {
            #expect(request.method == "POST")
            #expect(
                request.headers.map { "\($0.name): \($0.value)" } == [
                    "Host: 127.0.0.1:\(receiver.port)", "User-Agent: clientctl/\(version)", "Accept: */*",
                    "Content-Type: application/json", "Content-Length: \(request.body.count)",
                ])
        }
        let bodies = try receiver.requests.map { request in
            var text = String(decoding: request.body, as: UTF8.self)
            for report in try ReportMessage(parsing: request.body).reports {
                text = text.split(separator: report.id).joined(separator: "ID")
            }
            return text
        }
        let common = #""version":"1.1.0","channel":"stable""#
        #expect(
            bodies == [
                #"{"schema":1,"appId":"\#(ChannelSite.appId)","dropped":0,"reports":["#
                    + #"{"id":"ID","fact":"installed",\#(common),"previous":"1.0.0","route":"archive","code":null}]}"#,
                #"{"schema":1,"appId":"\#(ChannelSite.appId)","dropped":0,"reports":["#
                    + #"{"id":"ID","fact":"started",\#(common),"previous":"1.0.0","route":null,"code":null},"#
                    + #"{"id":"ID","fact":"failed",\#(common),"previous":null,"route":null,"code":"reported"},"#
                    + #"{"id":"ID","fact":"rolledBack",\#(common),"previous":"1.0.0","route":null,"code":"reported"}]}"#,
            ])
    }

    @Test func `report sends the feed's token only to receivers of its origin`() throws {
        let tokens = try site.folder.write(bytes("a-token\n"), to: "token")
        chmod(tokens, 0o600)
        let receiver = try LoopbackServer { _ in Route(bytes("{}")) }
        let (url, other) = ("http://127.0.0.1:\(receiver.port)/report", "http://127.0.0.1:1/channels/stable.json")
        func shown() -> String? { receiver.requests.last?.headers.first { $0.name == "Authorization" }?.value }
        // A feed in a folder has no origin.
        try install("a", ["--report", url, "--token-file", tokens]).succeeded("installed")
        #expect(receiver.requests.count == 1 && shown() == nil)
        try start("a")
        let config = try site.folder.write(bytes(#"{"token-file": "\#(tokens)"}"#), to: "config.json")
        try report("a", to: url, ["--config", config]).succeeded("reported")
        #expect(receiver.requests.count == 2 && shown() == nil)
        try start("a", failing: true)
        try report("a", to: url, ["--token-file", tokens, "--channel", other]).succeeded("reported")
        #expect(receiver.requests.count == 3 && shown() == nil)
        try start("a", failing: true)
        let own = "http://127.0.0.1:\(receiver.port)/channels/stable.json"
        try report("a", to: url, ["--token-file", tokens, "--channel", own]).succeeded("reported")
        #expect(receiver.requests.count == 4 && shown() == "Bearer a-token")
        let message = try report("a", to: url, ["--token-file", tokens]).failed(64, "usage").error["message"]
        #expect(message?.stringValue?.contains("--channel or --manifest") == true)
    }

    @Test func `report sends samples to VictoriaMetrics`() throws {
        let receiver = try LoopbackServer { _ in Route(status: 204) }
        try install("a", ["--report", "http://127.0.0.1:\(receiver.port)/api/v1/import/prometheus"]).succeeded()
        let text = String(decoding: try #require(receiver.requests.first?.body), as: UTF8.self)
        let labels =
            #"{app="\#(ChannelSite.appId)",channel="stable",version="1.0.0",fact="installed",code="",route="archive"}"#
        #expect(text.hasSuffix("\nclientctl_report\(labels) 1\n"))
        #expect(try report("a", to: "http://127.0.0.1:1/report").string("outcome") == "nothingToReport")
    }

    @Test func `report does not follow redirects of a receiver`() throws {
        let other = try LoopbackServer { _ in Route(bytes("{}")) }
        let receiver = try LoopbackServer { _ in .redirect(to: "http://127.0.0.1:\(other.port)/report", status: 307) }
        try install("a", ["--report", "http://127.0.0.1:\(receiver.port)/report"]).succeeded("installed")
        #expect(receiver.requests.count == 1)
        #expect(other.requests.isEmpty)
    }

    @Test func `serve sends reports automatically, and records none without --report`() throws {
        let host = try Hosting(site.feed, ["--reports", site.folder.file("counts.json")])
        try install("a", ["--report", "http://127.0.0.1:1/report"]).succeeded("installed")
        let run = try ServeRun([
            "--store", store("a"), "--shell-version", "1.5.0", "--report", host.url + "report", "--report-within", "1s",
        ])
        let deadline = ContinuousClock.now + .seconds(60)
        while try counted(host)[key("installed", route: "archive")] != 1 {
            try #require(ContinuousClock.now < deadline)
            poll(nil, 0, 50)
        }
        _ = try run.stop()
        _ = try ServeRun(["--store", store("a"), "--shell-version", "1.5.0"]).stop()
        try start("a")
        try report("a", to: host.url + "report").succeeded("nothingToReport")
    }

    // MARK: Untrusted messages

    @Test func `host counts only reports about versions and channels of its feed`() throws {
        let host = try Hosting(site.feed, ["--reports", site.folder.file("counts.json")])
        #expect(try post(host, Self.one).text == #"{"counted":1}"#)
        #expect(try post(host, Self.one).text == #"{"counted":0}"#)
        let other = Self.one.replacing("0123456789abcdef0", with: "1123456789abcdef0")
        #expect(try post(host, other.replacing("1.0.0", with: "9.9.9")).text == #"{"counted":0}"#)
        let third = Self.one.replacing("0123456789abcdef0", with: "2123456789abcdef0")
        #expect(try post(host, third.replacing(#""stable""#, with: #""beta""#)).text == #"{"counted":0}"#)
        let sums = try counted(host)
        #expect(sums["clientctl_reports_foreign_total"] == 2)
        #expect(sums["clientctl_reports_dropped_total"] == 6)
        #expect(sums[key("installed", route: "archive")] == 1)
        #expect(sums.keys.filter { $0.hasPrefix("clientctl_reports_total") }.count == 1)
    }

    @Test func `host rejects malformed reports`() throws {
        let host = try Hosting(site.feed, ["--reports", site.folder.file("counts.json")])
        for (part, other) in [
            (#""schema":1"#, #""schema":2"#), ("installed", "exploded"), ("archive", "pigeon"),
            (#""code":null"#, #""code":"byHand""#), (#""code":null"#, #""host":"me""#), ("0123", "012"),
            ("0123", "012G"), ("stable", "../x"), ("1.0.0", "1.0"), (#""dropped":2"#, #""dropped":-1"#),
            (#""appId":null"#, #""user":"anne""#), ("}]}", "}]"),
        ] {
            let response = try post(host, Self.one.replacing(part, with: other))
            #expect(response.status == 400, "\(other)")
        }
        #expect(try post(host, Self.one, ["Content-Type: text/plain"]).status == 415)
        #expect(try post(host, String(repeating: " ", count: 65537)).status == 413)
        #expect(try host.ask("/report").status == 405)
        #expect(try host.ask("/report", method: "POST").status == 411)
        #expect(try counted(host).keys.filter { $0.hasPrefix("clientctl_reports_total") }.isEmpty)
        let plain = try Hosting(site.feed)
        #expect(try post(plain, Self.one).status == 405)
        #expect(try plain.ask("/metrics").status == 404)
    }

    @Test func `host with tokens accepts only reports with a token`() throws {
        let tokens = try site.folder.write(bytes("a-token\n"), to: "tokens")
        chmod(tokens, 0o600)
        let host = try Hosting(site.feed, ["--reports", site.folder.file("counts.json"), "--token-file", tokens])
        #expect(try post(host, Self.one).status == 401)
        #expect(try host.ask("/metrics").status == 401)
        #expect(try post(host, Self.one, ["Authorization: Bearer a-token"]).status == 200)
        try install("a", ["--report", "http://127.0.0.1:1/report"]).succeeded("installed")
        try report("a", to: host.url + "report").failed(11, "httpStatus")
        let feed = ["--channel", "\(host.url)channels/stable.json"]
        try report("a", to: host.url + "report", ["--token-file", tokens] + feed).succeeded("reported")
    }

    @Test func `host rejects a counter file that another host uses`() throws {
        let counts = site.folder.file("counts.json")
        let host = try Hosting(site.feed, ["--reports", counts])
        let outcome = try Clientctl.run(["feed", "serve", site.feed, "--reports", counts, "--json"]).failed(
            78, "configInvalid")
        #expect(outcome.error["message"]?.stringValue?.contains("Another host counts reports") == true)
        #expect(try post(host, Self.one).status == 200)
        host.program.send(SIGKILL)
        _ = try host.program.wait(within: .seconds(60))
        _ = try Hosting(site.feed, ["--reports", counts])
    }

    @Test func `host rejects a file without counters and leaves it unchanged`() throws {
        let counts = try site.folder.write(bytes("holiday"), to: "holiday.txt")
        let outcome = try Clientctl.run(["feed", "serve", site.feed, "--reports", counts, "--json"])
        outcome.failed(78, "configInvalid")
        #expect(try contents(ofFile: counts) == bytes("holiday"))
    }
}
