import BundleFormats
import ArchiveSource
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("Feed checks as devices", .ownThread) struct FeedCheckTests {
    /// Returns a feed whose second trust root revokes the key of 1.0.0. A release with the new key follows unless
    /// `isLast`.
    private func rotated(isLast: Bool = false) throws -> ChannelSite {
        let site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded("published")
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("release"), "--new", site.pub("new"), "--revoke", "--json",
        ]).succeeded("drafted")
        try site.signRoot("root1", "root2")
        try site.publishRoot().succeeded("published")
        if !isLast {
            try site.publish("1.1.0", ["--rollout", "100%", "--devices-trust-new-key"], key: "new").succeeded(
                "published")
        }
        return site
    }

    private func check(_ site: ChannelSite, _ url: String? = nil, trust: String? = nil) throws -> Outcome {
        try Clientctl.run(
            ["feed", "check", url ?? "file://\(site.feed)/", "--trust", trust ?? site.pinned, "--json"])
    }

    private func findings(_ outcome: Outcome) -> [JSONObject] {
        (outcome["findings"]?.arrayValue ?? []).compactMap(\.objectValue)
    }

    private func codes(_ outcome: Outcome) -> Set<String> {
        Set(findings(outcome).compactMap { $0["code"]?.stringValue })
    }

    private func serve(_ site: ChannelSite, _ change: @escaping @Sendable (String) -> Route?) throws -> LoopbackServer {
        let feed = site.feed
        return try LoopbackServer { request in
            if let route = change(request.target) { return route }
            guard let found = try? contents(ofFile: feed + request.target) else { return Route(status: 404) }
            return Route(found)
        }
    }

    @Test func `feed check follows the chain from the trust root of devices`() throws {
        let site = try rotated()
        try site.install("kiosk").succeeded("installed")
        #expect(try check(site)["verified"] == .bool(true))
        for document in ["manifest.json", "channels/stable.json", "channels/stable/2.json"] {
            try Clientctl.run(["verify", "\(site.feed)/\(document)", "--trust", site.pinned, "--json"])
                .succeeded("verified", "\(document)")
        }
        try Clientctl.run([
            "verify", "\(site.feed)/releases/v1.1.0/manifest.json", "--trust", site.pinned, "--json",
        ]).succeeded("verified")
        try site.publish("1.2.0", ["--trust", site.pinned, "--devices-trust-new-key"], key: "new").succeeded(
            "published")
        try Clientctl.run([
            "verify", "\(site.feed)/releases/v1.0.0/manifest.json", "--trust", site.pinned, "--json",
        ]).failed(20, "keyUnknown")
    }

    @Test func `feed check names the release of a revoked key and the command that removes it`() throws {
        let site = try rotated()
        let outcome = try check(site).succeeded("warning")
        #expect(codes(outcome) == ["revokedKey"])
        let finding = try #require(findings(outcome).first)
        #expect(finding["broken"] == .bool(false))
        let remove = "release withdraw --version 1.0.0 --channel stable"
        #expect(finding["message"]?.stringValue?.contains(remove) == true, "\(outcome.text)")
        let verified = try Clientctl.run([
            "verify", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--json",
        ]).succeeded("verified")
        #expect(verified.errors.contains(remove), "\(verified.errors)")
        try Clientctl.run(["feed", "export", "--feed", site.feed, "--to", site.folder.file("kit"), "--json"])
            .succeeded("exported")
        let kit = site.folder.file("kit")
        try Clientctl.run([
            "install", "--channel", "\(kit)/channels/stable.json", "--trust", site.pinned, "--store",
            site.folder.file("store-kit"), "--shell-version", "1.5.0", "--json",
        ]).succeeded("installed")
        try Clientctl.run([
            "release", "promote", "--version", "1.0.0", "--channel", "stable", "--to", "beta", "--create", "--feed",
            site.feed, "--channel-key", site.key("channel"), "--json",
        ]).failed(20, "keyUnknown")
        try site.release("withdraw", "--version", "1.0.0").succeeded("changed")
        #expect(try codes(check(site)) == [])
    }

    @Test func `feed check fails when the only release has a revoked key`() throws {
        let site = try rotated(isLast: true)
        let device = try site.install("kiosk")
        let outcome = try check(site).failed(20, "keyUnknown")
        #expect(device.status == outcome.status)
        #expect(codes(outcome) == ["revokedKey"])
    }

    @Test func `feed check fails like a device when a trust root is forged, damaged or missing`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"])
        let first = try TrustRootFormat.parse(contents(ofFile: site.pinned))
        var root = first.claims
        root.version = 2
        var forged = TrustRootFormat.envelope(root)
        forged.signatures = first.envelope.signatures
        let cases: [(Route, Int32, String)] = [
            (Route(forged.document), 20, "brokenChain"), (Route(bytes("{\"payload\"")), 25, "brokenChain"),
            (Route(status: 503), 11, "missing"),
        ]
        for (index, (route, status, code)) in cases.enumerated() {
            let server = try serve(site) { $0 == "/trust/2.json" ? route : nil }
            let url = try server.url("/").description
            let device = try Clientctl.run([
                "install", "--channel", "\(url)channels/stable.json", "--trust", site.pinned, "--store",
                site.folder.file("store-\(index)"), "--shell-version", "1.5.0", "--json",
            ])
            let outcome = try check(site, url)
            #expect(device.status == status && outcome.status == status, "\(device.errors)\(outcome.errors)")
            #expect(codes(outcome).contains(code), "\(outcome.text)")
            let verified = try Clientctl.run(["verify", "\(url)manifest.json", "--trust", site.pinned, "--json"])
            #expect(verified.status == status, "\(verified.errors)")
        }
    }

    @Test func `feed check fails like a device when a hold cannot be read, and reports an ignored hold`() throws {
        let site = try ChannelSite(withRoot: false)
        try site.initRoot(["--guard-key", site.pub("new")]).succeeded("created")
        try site.publishRoot().succeeded("published")
        try Clientctl.stock(["cp", site.trust, site.pinned])
        try site.publish("1.0.0", ["--rollout", "100%"])
        let busy = try serve(site) { $0 == "/channels/stable.hold.json" ? Route(status: 503) : nil }
        let url = try busy.url("/").description
        let device = try Clientctl.run([
            "install", "--channel", "\(url)channels/stable.json", "--trust", site.pinned, "--store",
            site.folder.file("store"), "--shell-version", "1.5.0", "--json",
        ])
        let outcome = try check(site, url)
        #expect(device.status == 11 && outcome.status == 11, "\(device.errors)\(outcome.errors)")
        let odd = try serve(site) { $0 == "/channels/stable.hold.json" ? Route(bytes("{}")) : nil }
        let ignored = try check(site, odd.url("/").description)
        #expect(ignored.status == 0 && codes(ignored).contains("voidHold"), "\(ignored.text)")
    }

    @Test func `feed check fails when manifest.json offers a recalled release`() throws {
        let site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.publish("1.1.0", ["--rollout", "100%"])
        let manifest = "\(site.feed)/manifest.json"
        try Clientctl.stock(["cp", manifest, site.folder.file("old.json")])
        try site.release("withdraw", "--version", "1.1.0").succeeded("changed")
        try site.release("recall", "--version", "1.1.0", "--reason", "bad").succeeded("changed")
        let url = "file://\(site.feed)/"
        let recalled = try Clientctl.run(["feed", "check", url, "--json"]).succeeded("good")
        #expect(recalled.string("offered") == "1.0.0")
        try Clientctl.stock(["cp", site.folder.file("old.json"), manifest])
        let broken = try Clientctl.run(["feed", "check", url, "--json"])
        #expect(broken.code == "versionBlocked" && codes(broken) == ["recalled"], "\(broken.errors)")
        try site.channel("renew").succeeded("changed")
        try Clientctl.run(["feed", "check", url, "--json"]).succeeded("good")
    }

    @Test func `feed check reports a channel of another application than the trust root`() throws {
        let site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0", ["--rollout", "100%", "--app-id", "com.example.other"])
        try site.initRoot().succeeded("created")
        let outcome = try check(site, trust: site.trust).failed(43, "appMismatch")
        #expect(codes(outcome).contains("otherApp"), "\(outcome.text)")
    }
}
