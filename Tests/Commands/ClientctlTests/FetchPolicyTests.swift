import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// The flags for the downloads of a device.
@Suite("Fetch policy of install and check", .ownThread) struct FetchPolicyTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0", Site.client("1.0.0").merging(["noise.bin": noise(300_000)]) { $1 })
    }

    /// Returns a window of an hour that begins in six hours, in UTC.
    private static var closedWindow: String {
        let hour = (time(nil) / 3600 + 6) % 24
        func text(_ hour: Int) -> String { hour < 10 ? "0\(hour):00" : "\(hour):00" }
        return "\(text(hour))-\(text(hour + 1))"
    }

    /// Runs a command on a device that shows its seed.
    private func run(_ command: String, at manifest: String? = nil, _ more: [String]) throws -> Outcome {
        let seed = try site.folder.writeTree(Site.client("0.9.0"), to: "seed")
        return try Clientctl.run(
            site.arguments(command, manifest, more + ["--seed", seed]), environment: ["TZ": "UTC"])
    }

    private func status() throws -> Outcome { try Clientctl.run(["status", "--store", site.store, "--json"]) }

    @Test func `installs within the hours and waits outside them`() throws {
        let window = ["--download-window", Self.closedWindow]
        let check = try run("check", window)
        #expect(check.status == 3)
        #expect(check.string("outcome") == "waiting")
        let waiting = try run("install", window)
        #expect(waiting.status == 0)
        #expect(waiting.string("waiting") == "hours")
        #expect(try status()["waiting"]?.objectValue?["reason"] == .string("hours"))
        try run("install", ["--download-window", "00:00-24:00"]).succeeded("installed", "1.0.0")
        #expect(try status()["waiting"] == .null)
    }

    @Test func `waits for another network if the budget is too small, and check reports it before`() throws {
        let metered = ["--metered", "yes", "--metered-budget", "100kB"]
        #expect(try run("check", metered).string("waiting") == "budget")
        let waiting = try run("install", metered)
        #expect(waiting.string("outcome") == "waiting")
        #expect(waiting.string("waiting") == "budget")
        try run("install", ["--metered", "no", "--metered-budget", "100kB"]).succeeded("installed", "1.0.0")
        #expect(try status()["metered"] == .null)
    }

    @Test func `counts the bytes of a metered network in the store`() throws {
        let server = try LoopbackServer(folder: site.feed)
        let manifest = "\(try server.url("/manifest.json"))"
        let installed = try run("install", at: manifest, ["--metered", "yes", "--metered-budget", "1MB"])
        installed.succeeded("installed", "1.0.0")
        let bytes = try #require(try status()["metered"]?.objectValue?["bytes"]?.integerValue)
        #expect(bytes >= 300_000 && bytes < 400_000)
    }

    /// Conditions that hold back an archive.
    private static let conditions = [
        ["--download-window", closedWindow], ["--deltas", "only"], ["--metered", "yes", "--metered-budget", "1kB"],
    ]

    @Test(arguments: conditions) func `a device without a client downloads whatever its conditions are`(
        conditions: [String]
    ) throws {
        let server = try LoopbackServer(folder: site.feed)
        let manifest = "\(try server.url("/manifest.json"))"
        #expect(try site.check(manifest, conditions).string("outcome") == "available")
        try site.install(manifest, conditions).succeeded("installed", "1.0.0")
        // The bytes count in the budget, and the conditions hold for the next release.
        let isMetered = conditions.contains("--metered")
        #expect((try status()["metered"]?.objectValue?["bytes"]?.integerValue ?? 0 > 300_000) == isMetered)
        try site.publish("1.1.0", Site.client("1.1.0").merging(["noise.bin": noise(300_001)]) { $1 })
        let next = try site.install(manifest, conditions)
        #expect(next.string("outcome") == "waiting" || next.string("route") == "delta")
    }

    @Test(arguments: conditions) func `a device whose only client is recalled downloads whatever its conditions are`(
        conditions: [String]
    ) throws {
        let site = try ChannelSite()
        try site.publish("1.1.0")
        try site.publish("1.2.0")
        try site.install("one").succeeded("installed", "1.2.0")
        try site.release("recall", "--version", "1.2.0", "--reason", "white screen").succeeded("changed")
        #expect(try site.install("one", conditions).succeeded("installed", "1.1.0").status == 0)
        #expect(try site.runs("one") == "1.1.0")
    }

    @Test func `uses only the downloads that --deltas allows`() throws {
        #expect(try run("install", ["--deltas", "only"]).string("waiting") == "deltas")
        try run("install", ["--deltas", "never"]).succeeded("installed", "1.0.0")
    }

    @Test func `states how long a release takes at the limited rate`() throws {
        let seconds = try #require(try run("check", ["--max-rate", "100kB"])["secondsToDownload"]?.integerValue)
        #expect((3...4).contains(seconds))
        #expect(try run("check", [])["secondsToDownload"] == .null)
        try run("check", ["--max-rate", "1kB"]).failed(64, "usage")
    }

    @Test func `downloads archives from a mirror and documents from the feed`() throws {
        let (feed, mirror) = (try LoopbackServer(folder: site.feed), try LoopbackServer(folder: site.feed))
        try run("install", at: "\(try feed.url("/manifest.json"))", ["--mirror", "\(try mirror.url("/"))"])
            .succeeded("installed", "1.0.0")
        #expect(mirror.requests.allSatisfy { $0.path.hasPrefix("/releases/") })
        #expect(!mirror.requests.isEmpty)
        #expect(!feed.requests.contains { $0.path.hasSuffix(".tar.zst") })
    }

    /// Answers of a hostile mirror.
    enum Hostility: String, CaseIterable, Sendable {
        case wrongBytes, missing, redirect, endless, cut, silent, page
    }

    @Test(arguments: Hostility.allCases) func `installs from the feed if a mirror is hostile`(hostility: Hostility)
        throws
    {
        let feed = try LoopbackServer(folder: site.feed)
        let elsewhere = try feed.url("/elsewhere")
        let mirror = try LoopbackServer(answer: { _ in
            switch hostility {
            case .wrongBytes: Route([UInt8](repeating: 7, count: 301_000))
            case .missing: Route([], status: 404)
            case .redirect: .redirect(to: "\(elsewhere)")
            case .endless: Route().with { $0.body = .endless }
            case .cut: Route([UInt8](repeating: 7, count: 301_000)).with { $0.pace = .cut(after: 100_000) }
            case .silent: Route().with { $0.pace = .cut(after: 0) }
            case .page: Route(Array("<html>login</html>".utf8))
            }
        })
        try run("install", at: "\(try feed.url("/manifest.json"))", ["--mirror", "\(try mirror.url("/"))"])
            .succeeded("installed", "1.0.0")
        #expect(!mirror.requests.isEmpty)
        #expect(!feed.requests.contains { $0.path == "/elsewhere" })
        #expect(try site.installed("1.0.0")["noise.bin"] == noise(300_000))
    }

    @Test(arguments: [("400kB", 0), ("1MB", 1)])
    func `keeps within the budget whatever a mirror sends, and leaves it out afterwards`(budget: String, requests: Int)
        throws
    {
        let feed = try LoopbackServer(folder: site.feed)
        let liar = try LoopbackServer(answer: { _ in Route([UInt8](repeating: 7, count: 301_000)) })
        let metered = ["--metered", "yes", "--metered-budget", budget, "--mirror", "\(try liar.url("/"))"]
        let manifest = "\(try feed.url("/manifest.json"))"
        try run("install", at: manifest, metered).succeeded("installed", "1.0.0")
        let bytes = try #require(try status()["metered"]?.objectValue?["bytes"]?.integerValue)
        #expect(bytes <= (budget == "1MB" ? 1_000_000 : 400_000))
        #expect(liar.requests.count { $0.path.hasSuffix(".tar.zst") } == requests)
        // The first lie is remembered.
        try site.publish("1.1.0", Site.client("1.1.0").merging(["noise.bin": noise(100_000)]) { $1 })
        try run("install", at: manifest, ["--deltas", "never", "--mirror", "\(try liar.url("/"))"]).succeeded(
            "installed", "1.1.0")
        #expect(liar.requests.count == 1)
    }

    /// Changes the channel `stable` of the feed.
    private func edit(_ arguments: [String]) throws -> Outcome {
        try Clientctl.run(
            arguments + ["--feed", site.feed, "--channel", "stable", "--channel-key", site.key, "--json"])
    }

    private func channelCheck(_ more: [String] = []) throws -> Outcome {
        try Clientctl.run(
            [
                "check", "--channel", "\(site.feed)/channels/stable.json", "--trust", site.trust, "--store", site.store,
                "--shell-version", "1.5.0", "--seed", try site.folder.writeTree(Site.client("0.9.0"), to: "seed"),
                "--json",
            ] + more, environment: ["TZ": "UTC"])
    }

    @Test func `obeys the signed channel and the device, and an urgent release ignores the hours`() throws {
        try site.publish("1.1.0", nil, ["--channel", "stable", "--create"])
        try edit(["channel", "set", "--download-window", Self.closedWindow, "--max-rate", "64kB"]).succeeded("changed")
        #expect(try channelCheck().string("waiting") == "hours")
        #expect(try channelCheck(["--download-window", "00:00-24:00"]).string("waiting") == "hours")
        #expect(try channelCheck(["--metered", "yes", "--metered-budget", "100B"]).string("waiting") == "budget")
        try edit(["release", "set", "--urgent", "--version", "1.1.0"]).succeeded("changed")
        let urgent = try channelCheck()
        #expect(urgent.string("outcome") == "available")
        #expect(urgent["secondsToDownload"] == .null)
        #expect(try channelCheck(["--metered", "yes", "--metered-budget", "0B"]).string("waiting") == "budget")
        try edit(["channel", "set", "--deltas", "only"]).succeeded("changed")
        #expect(try channelCheck().string("waiting") == "deltas")
        try edit(["channel", "set", "--deltas", "default", "--download-window", "default"]).succeeded("changed")
        try edit(["channel", "set", "--deltas", "default"]).succeeded("unchanged")
    }

    @Test func `refuses a key and a header file that other users can read`() throws {
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        try Clientctl.stock(["chmod", "644", authority.keyFile])
        try run("check", ["--client-cert", authority.certificateFile, "--client-key", authority.keyFile])
            .failed(31, "permissionDenied")
        let server = try LoopbackServer(folder: site.feed)
        let fields = try site.folder.write(bytes("X-Site: 12\n"), to: "fields")
        try Clientctl.stock(["chmod", "644", fields])
        try run("check", at: "\(try server.url("/manifest.json"))", ["--header-file", fields]).failed(
            31, "permissionDenied")
        try Clientctl.stock(["chmod", "600", fields])
        #expect(try run("check", at: "\(try server.url("/manifest.json"))", ["--header-file", fields]).status == 0)
        #expect(server.requests.allSatisfy { $0["X-Site"] == "12" })
    }
}
