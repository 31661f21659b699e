import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `feed serve --phones`, asked as the plugins ask. The requests are written by hand from the plugins' documentation.
@Suite(.ownThread) struct PhoneHostTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    // MARK: A phone

    private static let shell = "1.5.0"

    private func host(_ more: [String] = []) throws -> Hosting {
        try Hosting(
            site.feed,
            ["--phones", "--trust", site.pinned, "--public-url", "https://updates.example.com/feed"] + more)
    }

    /// Returns the body that `@capgo/capacitor-updater` 8.51 sends.
    private static func capgo(_ device: String, running: String = "builtin", _ more: [String: String] = [:]) -> String {
        let members = [
            "platform": "ios", "device_id": device, "app_id": ChannelSite.appId, "custom_id": "",
            "version_build": shell,
            "version_code": "42", "version_os": "18.1", "version_name": running, "plugin_version": "8.51.14",
            "defaultChannel": "",
        ].merging(more) { $1 }
        let texts = members.sorted { $0.key < $1.key }.map { #""\#($0.key)":"\#($0.value)""# }
        return "{\(texts.joined(separator: ",")),\"is_emulator\":false,\"is_prod\":true}"
    }

    private func post(_ host: Hosting, _ path: String, _ body: [UInt8], _ fields: [String] = []) throws -> RawResponse {
        let connection = try RawConnection(port: host.port)
        let type = fields.isEmpty ? ["Content-Type: application/json; charset=utf-8"] : fields
        connection.send(
            "POST \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(host.port)\r\nConnection: close\r\nContent-Length: \(body.count)\r\n"
                + type.map { $0 + "\r\n" }.joined() + "\r\n")
        connection.send(body)
        return try connection.receiveAnswer()
    }

    private func check(_ host: Hosting, _ body: String, channel: String = "stable") throws -> JSONObject {
        let response = try post(host, "/phones/updates/\(channel)", bytes(body))
        #expect(response.status == 200, "\(response.text)")
        #expect(response["Content-Type"]?.hasPrefix("application/json") == true)
        return try #require(try JSONScanner.parse(response.body, maximumBytes: 1 << 16).objectValue)
    }

    /// Returns the version, or the kind and the error of the answer.
    private func word(_ host: Hosting, _ device: String, running: String = "builtin", _ more: [String: String] = [:])
        throws -> String
    {
        let answer = try check(host, Self.capgo(device, running: running, more))
        if let version = answer["version"]?.stringValue {
            #expect(answer["kind"] == nil && answer["error"] == nil)
            return version
        }
        return [answer["kind"], answer["error"]].compactMap { $0?.stringValue }.joined(separator: " ")
    }

    /// Waits until the host has read the changed feed, which takes a second.
    private func wait(_ host: Hosting, until expected: String, _ device: String, running: String = "builtin") throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            let found = try word(host, device, running: running)
            if found == expected { return }
            try #require(ContinuousClock.now < deadline, "\(found) instead of \(expected)")
            poll(nil, 0, 100)
        }
    }

    private func statistics(_ host: Hosting, _ events: [[String: String]], channel: String? = "stable") throws {
        let texts = events.map { event in
            Self.capgo(event["device_id"] ?? "phone", event.merging(["timestamp": "0"]) { $1 })
        }
        let path = "/phones/stats" + (channel.map { "/\($0)" } ?? "")
        let response = try post(host, path, bytes("[\(texts.joined(separator: ","))]"))
        #expect(response.status == 200, "\(response.text)")
    }

    private func counted(_ host: Hosting) throws -> [String: Double] {
        poll(nil, 0, 1100)
        return ServeRun.samples(in: try host.ask("/metrics").text)
    }

    // MARK: The contracts

    @Test func `host offers a release to Capgo's plugin, encrypted if the phone has the key`() throws {
        try Clientctl.run(["keys", "generate", "--phone", "--out", site.folder.file("phone"), "--json"]).succeeded()
        try site.publish("1.0.0", ["--phone-key", site.folder.file("phone.key.pem")]).succeeded("published")
        let host = try host()
        let plain = try check(host, Self.capgo("phone-1"))
        let folder = "https://updates.example.com/feed/releases/v1.0.0/"
        #expect(plain["url"]?.stringValue == folder + "phone.zip" && plain["session_key"] == nil)
        #expect(
            plain["checksum"]?.stringValue == (try HandmadeRelease.sha256("\(site.feed)/releases/v1.0.0/phone.zip")))
        let pem = String(decoding: try contents(ofFile: site.folder.file("phone.pkcs1.pem")), as: UTF8.self)
        let keyId = String(pem.split(separator: "\n")[1].prefix(20))
        let sealed = try check(host, Self.capgo("phone-1", ["key_id": keyId]))
        #expect(sealed["url"]?.stringValue == folder + "phone.zip.enc")
        #expect(sealed["checksum"]?.stringValue?.utf8.count == 512)
        #expect(sealed["session_key"]?.stringValue?.split(separator: ":").count == 2)
        #expect(try word(host, "phone-1", ["key_id": "MIIBCgKCAQEAother000"]) == "blocked other_key")
        // The files are on the same host.
        #expect(try host.ask("/releases/v1.0.0/phone.zip.enc").status == 200)
        #expect(try word(host, "phone-1", running: "1.0.0") == "up_to_date no_new_version_available")
    }

    @Test func `host answers every documented request of both plugins`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let host = try host(["--reports", site.folder.file("counts.json")])
        // Android, iOS and Electron, with and without optional members, and members of later versions.
        for more in [
            ["platform": "android", "install_source": "com.android.vending"], ["platform": "ios", "key_id": ""],
            ["platform": "electron"], ["platform": "android", "custom_id": "person 7", "future": "member"],
            ["version_build": "1.5"], ["defaultChannel": "beta"],
        ] {
            #expect(try word(host, "phone", more) == "1.0.0", "\(more)")
        }
        let actions = [
            "set", "reset", "update_fail", "app_launch_start", "app_launch_ready", "app_launch_timeout",
            "checksum_fail",
            "checksum_required", "unzip_fail", "download_fail", "download_complete", "download_50", "set_next",
            "set_fail", "delete", "low_mem_fail", "insufficient_disk_space", "finish_download_fail",
            "windows_path_fail", "canonical_path_fail", "directory_path_fail", "decrypt_fail", "download_zip_start",
            "download_manifest_file_fail", "app_moved_to_background", "app_moved_to_foreground", "rate_limit_reached",
            "blocked_by_server_url", "webview_javascript_error", "app_crash",
        ]
        try statistics(host, actions.map { ["action": $0, "version_name": "1.0.0", "old_version_name": "1.0.0"] })
        let single = try post(host, "/phones/stats", bytes(Self.capgo("phone", ["action": "set"])))
        #expect(single.status == 200)
        // The 200 events that the plugin keeps without a network.
        try statistics(host, (0..<200).map { ["action": "set", "version_name": "1.0.0", "device_id": "far-\($0)"] })

        let query =
            "appVersionCode=42&appVersionName=1.5.0&bundleId&channelName=stable&customId&deviceId=phone%2D1&osVersion=35&platform=0&pluginVersion=8.4.1"
        for path in ["/phones/capawesome/stable?\(query)", "/v1/apps/0000-1111/bundles/latest?\(query)"] {
            let response = try host.ask(path)
            #expect(response.status == 200)
            let answer = try #require(JSONScanner.parse(response.body, maximumBytes: 65536).objectValue)
            #expect(answer["artifactType"]?.stringValue == "zip" && answer["bundleId"]?.stringValue == "1.0.0")
            #expect(answer["url"]?.stringValue?.hasSuffix("/feed/releases/v1.0.0/phone.zip") == true)
            #expect(answer["checksum"]?.stringValue?.utf8.count == 64 && answer["signature"] == nil)
        }
        // No bundle: the plugin takes any other status for that.
        let none = try host.ask("/phones/capawesome/stable?deviceId=a&appVersionName=1.5.0&bundleId=1.0.0")
        #expect(none.status == 404)
    }

    @Test func `events of phones count once as reports with their platform`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let host = try host(["--reports", site.folder.file("counts.json")])
        let start = ["version_name": "1.0.0", "platform": "android"]
        for device in ["a", "b", "c"] {
            try statistics(
                host, ["set", "app_launch_ready"].map { start.merging(["action": $0, "device_id": device]) { $1 } })
        }
        // Each start reports again, also to the address without a channel.
        try statistics(host, [start.merging(["action": "app_launch_ready", "device_id": "a"]) { $1 }], channel: nil)
        try statistics(
            host,
            [
                start.merging(["action": "app_launch_timeout", "device_id": "c"]) { $1 },
                start.merging(["action": "update_fail", "device_id": "c"]) { $1 },
                [
                    "action": "reset", "version_name": "builtin", "old_version_name": "1.0.0", "device_id": "c",
                    "platform": "ios",
                ],
                start.merging(["action": "checksum_fail", "device_id": "d"]) { $1 },
                start.merging(["action": "set", "device_id": "e", "version_name": "builtin"]) { $1 },
                start.merging(["action": "set", "device_id": "f", "version_name": "9.9.9"]) { $1 },
                start.merging(["action": "set", "device_id": "g", "platform": "toaster"]) { $1 },
            ])
        let sums = try counted(host)
        func sum(_ fact: String, code: String = "", platform: String = "android") -> Double? {
            sums[
                #"clientctl_reports_total{channel="stable",version="1.0.0",fact="\#(fact)",code="\#(code)",route="",platform="\#(platform)"}"#
            ]
        }
        #expect(sum("installed") == 3 && sum("started") == 3 && sum("confirmed") == 3)
        #expect(sum("failed", code: "notConfirmed") == 1 && sum("failed", code: "digestMismatch") == 1)
        #expect(sum("rolledBack", platform: "ios") == 1)
        #expect(sums["clientctl_reports_repeated_total"] == 2)
        let file = String(decoding: try contents(ofFile: site.folder.file("counts.json")), as: UTF8.self)
        #expect(!file.contains("\"a\"") && file.contains("\"platform\": \"android\""))
    }

    @Test func `sixty malformed requests get 200 or 400 and leave the host at work`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let host = try host(["--reports", site.folder.file("counts.json")])
        let good = Self.capgo("phone")
        var bodies: [[UInt8]] = [
            "", "{", "}", "[]", "null", "1", "1.5", "\"text\"", "{}", "[{}]", "[1,2]", "[[]]", "{\"device_id\":1}",
            "{\"device_id\":null}", "{\"device_id\":\"\"}", "{\"device_id\":\"a\"}",
            "{\"device_id\":\"a\",\"version_build\":\"x\"}",
            "{\"device_id\":\"a\",\"version_build\":1}", "{\"device_id\":\"a\",\"version_build\":\"1.2.3.4.5\"}",
            "{\"device_id\":\"a\",\"version_build\":\"1..2\"}", "{\"device_id\":\"a\",\"version_build\":\"-1\"}",
            "{\"device_id\":\"a\",\"version_build\":\"1.5.0\",\"version_name\":[]}",
            "{\"device_id\":\"a\",\"version_build\":\"1.5.0\",\"device_id\":\"b\"}", good + "x", good + good,
            good.replacing(":", with: "="), good.replacing("\"", with: "'"), "{\"action\":{}}",
            "[{\"action\":\"set\"}]",
            "[{\"action\":\"set\",\"device_id\":{},\"platform\":\"ios\",\"version_name\":\"1.0.0\"}]",
        ].map(bytes)
        bodies += [
            [0xFF, 0xFE], bytes("{\"device_id\":\"") + [0xC3, 0x28] + bytes("\"}"), Array(repeating: 0, count: 64),
            Array(repeating: UInt8(ascii: "["), count: 10_000), bytes(String(repeating: "{\"a\":", count: 3000)),
            bytes(Self.capgo(String(repeating: "d", count: 200))),
            bytes(Self.capgo("a", ["custom_id": String(repeating: "c", count: 20_000)])),
            Array(repeating: UInt8(ascii: " "), count: 200_000), bytes(good.replacing("ios", with: "\\ud800")),
            bytes(Self.capgo("a\\u0000b", ["version_name": String(repeating: "9", count: 4000)])),
        ]
        var tried = 0
        func expect(_ response: RawResponse, _ what: String) {
            tried += 1
            #expect([200, 400].contains(response.status), "\(response.status) to \(what)")
        }
        for (index, body) in bodies.enumerated() {
            for path in ["/phones/updates/stable", "/phones/stats/stable"] {
                expect(try post(host, path, body), "body \(index) at \(path)")
            }
        }
        for (method, target) in [
            ("GET", "/phones/updates/stable"), ("PUT", "/phones/updates/stable"), ("DELETE", "/phones/stats"),
            ("GET", "/phones/nothing"), ("GET", "/phones/updates/"), ("GET", "/phones/capawesome/stable"),
            ("GET", "/phones/capawesome/A"), ("GET", "/phones/capawesome/stable?deviceId=%FF&appVersionName=1.0.0"),
            ("GET", "/phones/capawesome/stable?deviceId=%2&appVersionName=1.0.0"), ("GET", "/phones/updates/%2e%2e"),
            ("GET", "/phones/capawesome/stable?deviceId=a&appVersionName=one"), ("GET", "/v1/apps/x/bundles/latest"),
            ("GET", "/v1/apps/x"), ("POST", "/v1/apps/x/bundles/latest"), ("GET", "/phones/../manifest.json"),
        ] {
            expect(try host.ask(target, method: method), "\(method) \(target)")
        }
        for fields in [
            ["Content-Type: text/plain"], ["Content-Type: application/xml"], ["Expect: nothing"],
            ["Content-Encoding: gzip"],
        ] {
            expect(try post(host, "/phones/updates/stable", bytes(good), fields), "\(fields)")
        }
        #expect(tried >= 60)
        #expect(try word(host, "phone") == "1.0.0")
        #expect(try check(host, good, channel: "nowhere")["error"]?.stringValue == "unknown_channel")
        #expect(try host.ask("/healthz").status == 200)
    }

    // MARK: Life of a release

    @Test func `a phone sees a rollout, a hold of the guard, a recall and a minimum version`() throws {
        let guarded = try ChannelSite(withRoot: false)
        try guarded.initRoot(["--guard-key", guarded.pub("new")]).succeeded("created")
        try guarded.publishRoot().succeeded("published")
        try Clientctl.stock(["cp", guarded.trust, guarded.pinned])
        let run = try PhoneHostTests(on: guarded)
        try run.live()
    }

    private init(on site: ChannelSite) throws { self.site = site }

    private func live() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let host = try host()
        let phones = (0..<300).map { "phone-\($0)" }
        #expect(try word(host, phones[0]) == "1.0.0")

        // 10 % of the phones get 1.1.0, and the others stay.
        try site.publish("1.1.0", ["--phone", "--rollout", "10%"]).succeeded("published")
        poll(nil, 0, 1200)
        let offered = try phones.filter { try word(host, $0, running: "1.0.0") == "1.1.0" }
        #expect((15...45).contains(offered.count), "\(offered.count) of 300")
        let (early, late) = (try #require(offered.first), try #require(phones.first { !offered.contains($0) }))
        #expect(try word(host, late, running: "1.0.0") == "up_to_date no_new_version_available")
        #expect(try word(host, late) == "1.0.0")
        // The draw is that of every other device.
        let device = try site.install(early).succeeded()
        #expect(device.string("version") == "1.1.0")
        #expect(try site.install(late).succeeded().string("version") == "1.0.0")

        // A guard holds 1.1.0: further phones stay, and those with it keep it.
        let engine = try LoopbackServer { _ in
            let series = ["started": 10, "confirmed": 5, "failed": 5].map {
                #"{"metric":{"fact":"\#($0)"},"value":[1700000000,"\#($1)"]}"#
            }
            return Route(
                bytes(
                    #"{"status":"success","data":{"resultType":"vector","result":[\#(series.joined(separator: ","))]}}"#
                ))
        }
        let stopped = try Clientctl.run([
            "fleet", "guard", "--version", "1.1.0", "--feed", site.feed, "--channel", "stable", "--guard-key",
            site.key("new"), "--trust", site.pinned, "--prometheus", "http://127.0.0.1:\(engine.port)",
            "--trust-reports", "--json",
        ])
        #expect(stopped.status == 60, "\(stopped.errors)")
        try wait(host, until: "blocked paused", early, running: "1.0.0")
        #expect(try word(host, early, running: "1.1.0") == "up_to_date no_new_version_available")

        // A recall: phones with 1.1.0 return to 1.0.0.
        try site.release("recall", "--version", "1.1.0", "--reason", "white screen").succeeded()
        try wait(host, until: "1.0.0", early, running: "1.1.0")
        // Without another release, they return to the files in the app.
        try site.release("recall", "--version", "1.0.0", "--reason", "white screen, too").succeeded()
        try wait(host, until: "builtin", early, running: "1.1.0")
        #expect(try word(host, early, running: "1.0.0") == "builtin")
        #expect(try word(host, early) == "up_to_date no_new_version_available")
        let back = try check(host, Self.capgo(early, running: "1.0.0"))
        #expect(back["url"]?.stringValue == "" && back["checksum"] == nil)

        // A release for newer apps, and a minimum version.
        try Clientctl.run([
            "publish", try site.folder.writeTree(Site.client("2.0.0"), to: "web-2.0.0"), "--version", "2.0.0", "--feed",
            site.feed, "--key", site.key("release"), "--min-shell", "2.0.0", "--app-id", ChannelSite.appId, "--level",
            "1", "--channel", "stable", "--channel-key", site.key("channel"), "--phone", "--json",
        ]).succeeded("published")
        try wait(host, until: "blocked app_too_old", early)
        #expect(try word(host, early, ["version_build": "2.0"]) == "2.0.0")
        try site.publish("2.1.0", ["--phone"]).succeeded("published")
        try wait(host, until: "2.1.0", early)
        try site.release("recall", "--below", "2.1.0").succeeded()
        try wait(host, until: "2.1.0", early, running: "2.0.0")
        #expect(try word(host, early, running: "2.1.0") == "up_to_date no_new_version_available")
        // A release without a bundle does not keep a phone on one that it must leave.
        try site.publish("2.2.0").succeeded("published")
        try wait(host, until: "blocked no_phone_bundle", early, running: "2.1.0")
        try site.release("recall", "--version", "2.1.0", "--reason", "white screen").succeeded()
        try wait(host, until: "builtin", early, running: "2.1.0")
        #expect(try word(host, early) == "blocked no_phone_bundle")
    }

    @Test func `groups count only with --phone-groups`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        try site.publish("1.1.0", ["--phone", "--rollout", "0.1%"]).succeeded("published")
        try site.release("target", "qa", "--version", "1.1.0").succeeded()
        let member = ["custom_id": "qa,eu"]
        let device = "some-phone"
        #expect(try word(host(), device, member) == "1.0.0")
        let open = try host(["--phone-groups"])
        #expect(try word(open, device, member) == "1.1.0")
        #expect(try word(open, device, ["custom_id": "Not A Group"]) == "1.0.0")
        #expect(try word(open, device, ["app_id": "com.example.other"]) == "blocked wrong_app")
    }

    @Test func `host answers from no document that --trust does not verify`() throws {
        try site.publish("1.0.0", ["--phone"]).succeeded("published")
        let host = try host()
        #expect(try word(host, "phone") == "1.0.0")
        let file = "\(site.feed)/channels/stable.json"
        let before = try contents(ofFile: file)
        // A thief of the host's disk signs a channel with another key.
        try site.publish("1.1.0", ["--phone"], channelKey: "channel").succeeded("published")
        try wait(host, until: "1.1.0", "phone")
        try site.folder.write(before, to: "feed/channels/stable.json")
        try wait(host, until: "failed channel_unavailable", "phone")
        try host.wait(until: "phones get no answer from channel stable")
        let strange = String(decoding: before, as: UTF8.self).replacing(/"sig": "[^"]{8}/, with: #""sig": "AAAAAAAA"#)
        try site.folder.write(bytes(strange), to: "feed/channels/stable.json")
        poll(nil, 0, 1200)
        #expect(try word(host, "phone") == "failed channel_unavailable")
    }

    @Test func `host refuses flags that phones cannot use`() throws {
        let token = try site.folder.write(bytes("feed-token-of-the-fleet"), to: "token")
        chmod(token, 0o600)
        let url = ["--public-url", "https://u.example.com/"]
        for (arguments, message) in [
            ([site.feed, "--phones"] + url, "--trust"),
            ([site.feed, "--phones", "--trust", site.pinned], "--public-url"),
            ([site.feed, "--phones", "--trust", site.pinned, "--token-file", token] + url, "send no tokens"),
            (
                [site.feed, "--phones", "--trust", site.pinned, "--public-url", "https://u.example.com/?a=b"],
                "without a query"
            ),
            ([site.feed, "--trust", site.pinned], "needs --phones"),
            (["--upstream", "https://u.example.com/", "--phones", "--trust", site.pinned] + url, "not to a relay"),
        ] {
            let outcome = try Clientctl.run(["feed", "serve"] + arguments)
            #expect(outcome.status == 64 && outcome.errors.contains(message), "\(arguments): \(outcome.errors)")
        }
    }
}
