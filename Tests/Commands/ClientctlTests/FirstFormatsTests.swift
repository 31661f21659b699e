import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// The files in Fixtures/0.9, which the program of 0.9.0 wrote. Every later program must accept them.
@Suite(.ownThread) struct FirstFormatsTests {
    private let folder: TemporaryFolder
    /// The publisher's memory of 0.9.0.
    private var state: [String: String] { ["CLIENTCTL_PUBLISHER_STATE": folder.file("state/clientctl")] }

    init() throws {
        folder = try TemporaryFolder()
        try Clientctl.stock(["tar", "-xzf", "\(Checkout.root)/Fixtures/0.9/made.tar.gz", "-C", folder.path])
    }

    private func run(_ arguments: [String]) throws -> Outcome {
        try Clientctl.run(arguments + ["--json"], environment: state, in: folder.path)
    }

    private func install(_ channel: String = "feed/channels/stable.json", store: String = "store") throws -> Outcome {
        try run([
            "install", "--channel", channel, "--trust", "trust.json", "--store", store, "--shell-version", "1.0.0",
            "--app-id", "org.example.kiosk",
        ])
    }

    private func launch(store: String = "store", confirming version: String) throws {
        let launched = try run(["launch", "--store", store, "--shell-version", "1.0.0", "--seed", "seed"]).succeeded()
        #expect(launched.string("version") == version)
        let token = try #require(launched.string("token"))
        try run(["confirm", "--store", store, "--version", version, "--token", token]).succeeded()
    }

    @Test func `a store of 0.9 keeps its clients, its blocked version and its waiting release`() throws {
        let status = try Clientctl.run(["status", "--store", "store"], in: folder.path)
        for line in [
            "running: v1.2.0", "next: meteor-push-1", "v1.0.0  good", "v1.1.0  not installed; blocked",
            "the page shows nothing", "v1.5.0 waits for its download",
        ] { #expect(status.text.contains(line), "\(line): \(status.text)") }
        try run(["verify", "--store", "store"]).succeeded()
        try run(["list", "--store", "store"]).succeeded()
    }

    @Test func `a store of 0.9 shows its hot code push and continues with the channel`() throws {
        try launch(confirming: "push-1")
        try install().succeeded("installed")
        try run(["verify", "--store", "store", "--trust", "trust.json"]).succeeded()
        #expect(try run(["list", "--store", "store"]).text.contains("v1.5.0"))
    }

    @Test func `a damaged file in a store of 0.9 is repaired`() throws {
        try Clientctl.stock(["sh", "-c", "printf damaged >store/clients/v1.2.0/app.js"], in: folder.path)
        try run(["verify", "--store", "store"]).failed(33, "storeDamaged")
        try run([
            "repair", "--store", "store", "--channel", "feed/channels/stable.json",
        ]).succeeded()
        try run(["verify", "--store", "store"]).succeeded()
    }

    @Test func `a store of 0.9 rolls back, and continues after a lost ledger`() throws {
        try run(["rollback", "--store", "store", "--version", "1.0.0"]).succeeded()
        try launch(confirming: "1.0.0")
        try Clientctl.stock(["rm", "ledger.json"], in: folder.file("store"))
        try install().succeeded()
        try run(["verify", "--store", "store"]).succeeded()
    }

    @Test func `a store of 0.9 with a session stays logged in and signs for its roster`() throws {
        let status = try Clientctl.run(["status", "--store", "store2"], in: folder.path)
        #expect(status.text.contains("session: logged in"), "\(status.text)")
        try launch(store: "store2", confirming: "1.5.0")
    }

    @Test func `a feed of 0.9 is edited with the publisher's memory, and new devices follow it`() throws {
        let list = try Clientctl.run(
            ["channel", "list", "--feed", "feed", "--channel", "stable", "--trust", "trust.json"], in: folder.path)
        for line in ["sequence 10", "recalled 1.4.0: a test of recalls", "1.3.0  the group qa first"] {
            #expect(list.text.contains(line), "\(line): \(list.text)")
        }
        try run([
            "publish", "seed", "--version", "1.6.0", "--feed", "feed", "--channel", "stable", "--key",
            "release.key.pem", "--channel-key", "channel.key.pem", "--trust", "trust.json", "--app-id",
            "org.example.kiosk",
        ]).succeeded("published")
        let again = try run([
            "publish", "store/clients/v1.0.0", "--version", "0.9.0", "--feed", "feed", "--channel", "stable", "--key",
            "release.key.pem", "--channel-key", "channel.key.pem", "--trust", "trust.json", "--app-id",
            "org.example.kiosk",
        ])
        #expect(again.status != 0, "a retired version keeps its content")
        try install(store: "fresh").succeeded("installed")
        try launch(store: "fresh", confirming: "1.6.0")
        // The device of 0.9, too.
        try install().succeeded("installed")
    }

    @Test func `a kit of 0.9 installs its release`() throws {
        try install("kit/channels/stable.json", store: "fresh").succeeded("installed")
        try launch(store: "fresh", confirming: "1.5.0")
    }

    @Test func `a delta of 0.9 updates a client`() throws {
        for (version, route) in [("1.0.0", "archive"), ("1.2.0", "delta")] {
            let installed = try run([
                "install", "--manifest", "feed/releases/v\(version)/manifest.json", "--trust", "trust.json", "--store",
                "fresh", "--shell-version", "1.0.0", "--app-id", "org.example.kiosk",
            ]).succeeded("installed")
            #expect(installed.string("route") == route)
        }
        try run(["verify", "--store", "fresh", "--trust", "trust.json"]).succeeded()
    }

    @Test func `a hold of 0.9 is verified`() throws {
        let hold = try run(["verify", "feed/channels/stable.hold.json", "--trust", "trust.json"]).succeeded("verified")
        #expect(hold.json["hold"]?.objectValue?["releases"] == .array([.string("1.3.0")]))
    }

    @Test func `a trust root of 0.9 is shown, renewed and signed`() throws {
        try run(["trust", "show", "trust.json"]).succeeded()
        try run(["trust", "renew", "trust.json", "--out", "next.json"]).succeeded()
        for key in ["root1.key.pem", "root2.key.pem"] {
            try run(["trust", "sign", "next.json", "--key", key]).succeeded()
        }
        try run(["trust", "publish", "next.json", "--feed", "feed"]).succeeded()
        try install().succeeded("installed")
    }

    @Test func `a project file of 0.9 edits the channel when it is named`() throws {
        try Clientctl.run(
            ["channel", "renew", "--config", "clientctl.json", "--json"], environment: state,
            in: folder.file("project")
        ).succeeded("changed")
    }

    @Test func `a host continues the counts and the roster of 0.9`() throws {
        let host = try Hosting(
            folder.file("feed"),
            [
                "--reports", folder.file("reports"), "--roster", folder.file("roster.db"), "--roster-token-file",
                folder.file("operators"),
            ])
        let metrics = try host.ask("/metrics").text
        #expect(metrics.contains(#"version="1.5.0""#), "\(metrics)")
        let roster = try host.ask("/roster.json", ["Authorization: Bearer an-operator-token"]).text
        #expect(roster.contains("Screen 2"), "\(roster)")
        try run([
            "install", "--channel", "\(host.url)channels/stable.json", "--trust", "trust.json", "--store", "store2",
            "--shell-version", "1.0.0", "--app-id", "org.example.kiosk", "--roster", "\(host.url)roster", "--name",
            "Screen two",
        ]).succeeded()
        let after = try host.ask("/roster.json", ["Authorization: Bearer an-operator-token"]).text
        #expect(after.contains("Screen two"), "\(after)")
    }
}
