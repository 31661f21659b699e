import BundleTestTraits
import BundleTesting
import Glibc
import Synchronization
import Testing

/// The metrics of the built program through an installation, launches, a confirmation and a rollback.
@Suite(.ownThread) struct MetricsTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
    }

    private func serve(_ more: [String] = []) throws -> ServeRun {
        try ServeRun(
            [
                "--store", site.folder.file("store"), "--shell-version", "1.5.0", "--seed", site.folder.file("seed"),
                "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--app-id",
                ChannelSite.appId, "--device-id", "one", "--check-interval", "1s", "--startup-timeout", "3s",
            ] + more)
    }

    @Test func `metrics count an installation, a launch, a confirmation and a rollback`() throws {
        try site.publish("1.0.0")
        let file = site.folder.file("clientctl.prom")
        let serving = try serve(["--metrics-file", file])
        let reader = WholeReader(file)
        try serving.wait(for: "1.0.0 is installed") { $0["clientctl_channel_sequence{channel=\"stable\"}"] == 1 }
        // The seed is shown until the shell finds the new client.
        try serving.wait(for: "it is shown") { _ in
            _ = try? serving.loadPage()
            return (try? serving.metrics()["clientctl_client_info{version=\"1.0.0\",source=\"archive\"}"]) == 1
        }
        let token = try serving.loadPage()
        #expect(try serving.call("startupDidComplete", token: token).status == 200)
        try serving.wait(for: "it is confirmed") { $0["clientctl_start_duration_seconds_count"] == 1 }
        let installed = try serving.metrics()
        let archive = try contents(ofFile: "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst").count
        #expect(installed["clientctl_downloaded_bytes_total"] == Double(archive))
        let checked = try #require(installed["clientctl_last_check_timestamp_seconds"])
        #expect(checked == installed["clientctl_last_successful_check_timestamp_seconds"])
        // Both are whole seconds.
        let due = try #require(installed["clientctl_next_check_timestamp_seconds"])
        #expect(due == checked || due == checked + 1)
        #expect(installed["clientctl_check_successes_total"] ?? 0 >= 1)
        #expect(installed["clientctl_rollbacks_total"] == 0)
        #expect(installed["clientctl_launches_total"] ?? 0 >= 1)
        let start = try #require(installed["clientctl_last_start_duration_seconds"])
        #expect(start > 0 && start == installed["clientctl_start_duration_seconds_sum"])
        #expect(installed["clientctl_start_duration_seconds_bucket{le=\"+Inf\"}"] == 1)
        let left = try #require(installed["clientctl_channel_remaining_seconds{channel=\"stable\"}"])
        #expect(left > 29 * 86_400 && left <= 30 * 86_400)
        let now = Double(time(nil))
        let expires = try #require(installed["clientctl_channel_expires_timestamp_seconds{channel=\"stable\"}"])
        #expect(abs(expires - now - left) < 900)
        let began = try #require(installed["clientctl_process_start_time_seconds"])
        #expect(began <= now && began > now - 600)

        try site.publish("2.0.0")
        try serving.wait(for: "2.0.0 is ready") { $0["clientctl_update_available"] == 1 }
        #expect(try serving.metrics()["clientctl_channel_sequence{channel=\"stable\"}"] == 2)
        let next = try serving.loadPage()
        try serving.wait(for: "2.0.0 is shown") {
            $0["clientctl_client_info{version=\"2.0.0\",source=\"archive\"}"] == 1
                && $0["clientctl_update_available"] == 0
        }
        // The page reports that it is visible, but does not confirm its start.
        try serving.call("visibility", token: next, body: "{\"page\":\"a\",\"number\":1,\"hidden\":false}")
        try serving.wait(for: "it is rolled back") { $0["clientctl_rollbacks_total"] == 1 }
        #expect(try serving.metrics()["clientctl_blocked_versions"] == 0)
        #expect(
            try serving.metrics()["clientctl_downloaded_bytes_total"] ?? 0 > installed[
                "clientctl_downloaded_bytes_total"] ?? 0)

        let text = try serving.ask("GET /__clientctl/v1/metrics").text
        let heads = text.split(separator: "\n").filter { $0.hasPrefix("#") }
        #expect(Set(heads).count == heads.count)
        for secret in [token, next] { #expect(!text.contains(secret)) }

        // The file has the same values at most a second later.
        let deadline = ContinuousClock.now + .seconds(60)
        while ServeRun.samples(in: reader.last())["clientctl_rollbacks_total"] != 1 {
            try #require(ContinuousClock.now < deadline, "\(reader.last())")
            poll(nil, 0, 20)
        }
        #expect(reader.halves() == [])
        var status = stat()
        #expect(stat(file, &status) == 0 && status.st_mode & 0o7777 == 0o644)
        #expect(installed["clientctl_screen_state{state=\"client\"}"] == 1)
        try Clientctl.run(["screen", "lock", "--store", site.folder.file("store"), "--json"]).succeeded()
        try serving.wait(for: "it is locked") {
            $0["clientctl_screen_state{state=\"locked\"}"] == 1 && $0["clientctl_screen_state{state=\"client\"}"] == 0
        }
        try serving.stop()
        #expect(access(file, F_OK) != 0)
    }

    @Test func `metrics count a resumed download and failing checks`() throws {
        let site = try Site()
        try site.publish("1.0.0", ["index.html": bytes("<!doctype html>"), "noise.bin": noise(400_000)])
        let path = "/releases/v1.0.0/client-v1.0.0.tar.zst"
        let archive = try contents(ofFile: site.feed + path)
        let server = try LoopbackServer(folder: site.feed)
        let whole = Route.resource(archive, entityTag: "\"one\"")
        server.set(path, whole.with { $0.pace = .cut(after: 20_000) })
        let manifest = "http://127.0.0.1:\(server.port)/manifest.json"
        try site.install(manifest).failed(10, "networkUnavailable")

        try site.folder.writeTree(Site.client("seed"), to: "seed")
        server.set("/manifest.json", Route(bytes("no"), status: 503))
        let serving = try ServeRun([
            "--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--manifest",
            manifest, "--trust", site.trust, "--check-interval", "1s",
        ])
        try serving.wait(for: "a check fails") { $0["clientctl_check_failures_total{code=\"httpStatus\"}"] ?? 0 >= 1 }
        #expect(try serving.metrics()["clientctl_downloaded_bytes_total"] == 0)
        server.set(path, whole)
        server.set("/manifest.json", Route(try contents(ofFile: site.manifest)))
        try serving.wait(for: "a check succeeds") { $0["clientctl_check_successes_total"] ?? 0 >= 1 }
        let range = try #require(server.requests.last { $0.target == path }?["Range"])
        let start = try #require(Int(range.dropFirst("bytes=".count).dropLast()))
        #expect(start >= 20_000)
        #expect(try serving.metrics()["clientctl_downloaded_bytes_total"] == Double(archive.count - start))
        try serving.stop()
    }

    @Test func `rejects a metrics file with another extension or in a missing folder`() throws {
        for name in ["metrics.txt", ".prom", "metrics.prom/"] {
            try refused(site.folder.file(name), 64, "usage")
        }
        try refused(site.folder.file("nowhere/metrics.prom"), 78, "configInvalid")
    }

    private func refused(_ file: String, _ status: Int32, _ code: String) throws {
        try Clientctl.run([
            "serve", "--store", site.folder.file("store"), "--shell-version", "1.5.0", "--metrics-file", file, "--json",
        ]).failed(status, code)
    }
}

/// Reads a file repeatedly on its own thread and collects incomplete contents.
private final class WholeReader: Sendable {
    private struct Seen {
        var last = ""
        var halves: [String] = []
        var isOver = false
    }

    private final class Shared: Sendable { let seen = Mutex(Seen()) }

    private let shared = Shared()

    init(_ path: String) {
        let shared = shared
        Task.detached {
            while !shared.seen.withLock(\.isOver) {
                if let bytes = try? contents(ofFile: path) {
                    let text = String(decoding: bytes, as: UTF8.self)
                    let isWhole =
                        text.hasPrefix("# HELP clientctl_")
                        && text.split(separator: "\n").last?.hasPrefix("clientctl_process_start_time_seconds ") == true
                        && text.hasSuffix("\n")
                    shared.seen.withLock { seen in
                        seen.last = text
                        if !isWhole { seen.halves.append(text) }
                    }
                }
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
    }

    deinit { shared.seen.withLock { $0.isOver = true } }

    func last() -> String { shared.seen.withLock(\.last) }

    func halves() -> [String] { shared.seen.withLock(\.halves) }
}
