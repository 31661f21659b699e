import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// `clientctl feed`, run as the built program.
@Suite(.ownThread) struct FeedCommandTests {
    private func prune(_ site: ChannelSite, _ more: String...) throws -> Outcome {
        try Clientctl.run(["feed", "prune", "--feed", site.feed, "--json"] + more)
    }

    @Test func `feed prune removes unreferenced releases, with --dry-run nothing, and devices still install`() throws {
        let site = try ChannelSite()
        for version in ["1.0.0", "1.1.0", "1.2.0"] { try site.publish(version, ["--rollout", "100%", "--no-deltas"]) }
        for version in ["1.0.0", "1.1.0"] { try site.release("withdraw", "--version", version).succeeded("changed") }
        let young = try prune(site, "--keep", "1", "--dry-run")
        #expect(young.succeeded("dryRun")["removed"] == .array([]))
        let plan = try prune(site, "--keep", "1", "--min-age", "0s", "--dry-run").succeeded("dryRun")
        let paths = (plan["removed"]?.arrayValue ?? []).compactMap { $0.objectValue?["path"]?.stringValue }
        #expect(paths.sorted() == ["releases/v1.0.0", "releases/v1.1.0"])
        #expect((plan["bytes"]?.integerValue ?? 0) > 0)
        try Clientctl.run(["verify", "\(site.feed)/releases/v1.0.0/manifest.json", "--trust", site.trust, "--json"])
            .succeeded("verified")
        let plain = try Clientctl.run([
            "feed", "prune", "--feed", site.feed, "--keep", "1", "--min-age", "0s", "--dry-run",
        ])
        #expect(plain.text.contains("would remove") && plain.text.contains("manifest.json offers it"))
        try prune(site, "--keep", "1", "--min-age", "0s").succeeded("removed")
        try prune(site, "--keep", "1", "--min-age", "0s").succeeded("unchanged")
        try site.install("a").succeeded("installed")
        try site.channel("restore", "--copy", "1").failed(78, "configInvalid")
        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded()
    }

    @Test func `feed prune rejects a folder that is not a feed`() throws {
        let site = try ChannelSite()
        try Clientctl.run(["feed", "prune", "--feed", site.folder.file("none"), "--json"]).failed(78, "configInvalid")
        let empty = try site.folder.makeFolder("web")
        try Clientctl.run(["feed", "prune", "--feed", empty, "--json"]).failed(78, "configInvalid")
        try prune(site, "--keep", "0").failed(64, "usage")
    }

    // MARK: check

    @Test func `feed check reports an unreachable server once`() throws {
        let site = try ChannelSite()
        let server = try serve(site)
        let url = try server.url("/").description
        server.stop()
        let dead = try Clientctl.run(["feed", "check", url, "--json"]).failed(10, "networkUnavailable")
        #expect(dead.errors.ranges(of: "\(url)manifest.json").count == 1, "\(dead.errors)")
    }

    /// A plain, correctly configured server of the feed. `change` can alter a response.
    private func serve(_ site: ChannelSite, _ change: @escaping @Sendable (String, inout Route) -> Void = { _, _ in })
        throws -> LoopbackServer
    {
        let feed = site.feed
        return try LoopbackServer { request in
            guard let found = try? contents(ofFile: feed + request.target) else { return Route(status: 404) }
            var route = Route.resource(found, entityTag: "\"\(found.count)\"")
            let isLasting = request.target.hasPrefix("/releases/") && !request.target.hasSuffix("deltas.json")
            route.headers = [("Cache-Control", isLasting ? "max-age=31536000, immutable" : "max-age=30")]
            change(request.target, &route)
            return route
        }
    }

    private func check(_ site: ChannelSite, _ url: String, _ more: String...) throws -> Outcome {
        try Clientctl.run(["feed", "check", url, "--trust", site.trust, "--json"] + more)
    }

    private func check(_ site: ChannelSite, _ server: LoopbackServer, _ more: [String] = []) throws -> Outcome {
        try withExtendedLifetime(server) {
            try Clientctl.run(
                ["feed", "check", server.url("/").description, "--trust", site.trust, "--json"] + more)
        }
    }

    private func codes(_ outcome: Outcome) -> Set<String> {
        Set((outcome["findings"]?.arrayValue ?? []).compactMap { $0.objectValue?["code"]?.stringValue })
    }

    private func filled() throws -> ChannelSite {
        let site = try ChannelSite()
        for version in ["1.0.0", "1.1.0"] { try site.publish(version, ["--rollout", "100%"]) }
        return site
    }

    @Test func `feed check finds no fault in clientctl feed serve and a correct web server`() throws {
        let site = try filled()
        let host = try Hosting(site.feed)
        let server = try serve(site)
        for url in [host.url, try server.url("/").description] {
            let outcome = try check(site, url, "--origin", site.feed).succeeded("good")
            #expect(outcome["channels"] == .array([.object(["channel": .string("stable"), "sequence": .integer(2)])]))
            #expect(outcome.string("offered") == "1.1.0" && outcome["verified"] == .bool(true))
            #expect((outcome["files"]?.integerValue ?? 0) >= 2)
        }
        withExtendedLifetime(server) {}
        try host.stop()
        try check(site, "file://\(site.feed)/").succeeded("good")
    }

    @Test func `feed check ends with 0 when it finds only slow downloads`() throws {
        let site = try filled()
        let server = try serve(site) { path, route in
            route.headers = path.hasSuffix(".json") ? [("Cache-Control", "max-age=86400")] : []
            if path.contains("v1.0.0/client") { route.entityTag = nil }
            if path.contains("v1.1.0/client"), case .bytes(let bytes) = route.body {
                route = Route(bytes)
                route.headers = [("ETag", "\"same\"")]
            }
        }
        let outcome = try check(site, server).succeeded("warning")
        #expect(codes(outcome) == ["cachedTooLong", "cachedTooShort", "noRanges"])
    }

    @Test func `feed check fails like a device that cannot get a release`() throws {
        let site = try filled()
        let gone = try serve(site) { path, route in if path.contains("client-v1.0.0") { route = Route(status: 404) } }
        let missing = try check(site, gone).failed(11, "httpStatus")
        #expect(codes(missing) == ["missing"] && missing["findings"]?.arrayValue?.count == 1)
        let short = try serve(site) { path, route in if path.contains("client-v1.0.0") { route.body = .bytes([1]) } }
        #expect(try codes(check(site, short).failed(23, "sizeMismatch")) == ["wrongSize"])
        let packed = try serve(site) { path, route in
            if path.contains("client-v1.0.0") { route.headers.append(("Content-Encoding", "gzip")) }
        }
        try check(site, packed).failed(24, "archiveRejected")
        let web = try serve(site) { path, route in if path.hasSuffix("stable.json") { route.body = .bytes([0x3C]) } }
        try check(site, web).failed(25, "manifestMalformed")
        let good = try serve(site)
        let url = try good.url("/").description
        let people = try Clientctl.run(["feed", "check", url])
        #expect(people.text.contains("Checked 2 archives and 0 deltas ("), "\(people.text)")
        let strange = try Clientctl.run(["feed", "check", url, "--trust", site.pub("new"), "--json"])
        #expect(codes(strange.failed(20, "keyUnknown")) == ["notVouchedFor"])
        try check(site, good, ["--channel", "beta"]).failed(11, "httpStatus")
        try check(site, "http://127.0.0.1:1/").failed(10, "networkUnavailable")
    }

    @Test func `feed check compares the served feed with its origin and reports stale caches`() throws {
        let site = try filled()
        let server = try serve(site)
        let old = try contents(ofFile: "\(site.feed)/channels/stable.json")
        let manifest = try contents(ofFile: site.feed + "/manifest.json")
        let behind = try serve(site) { path, route in
            if path.hasSuffix("stable.json") { route.body = .bytes(old) }
            if path == "/manifest.json" { route.body = .bytes(manifest) }
        }
        try site.publish("1.2.0", ["--rollout", "100%"])
        try check(site, server, ["--origin", site.feed]).succeeded("good")
        let outcome = try check(site, behind, ["--origin", site.feed]).failed(22, "rollbackAttempt")
        #expect(codes(outcome) == ["stale"] && outcome["findings"]?.arrayValue?.count == 2)
        try site.publish("1.3.0", ["--expires-in", "1d"])
        #expect(try codes(check(site, server)) == ["expiresSoon"])
    }

    // MARK: copy

    @Test func `feed copy copies a usable feed and resumes after an interruption`() throws {
        let site = try filled()
        try site.folder.write(bytes("hello"), to: "feed/index.html")
        let target = site.folder.file("copy")
        func copy(_ more: String...) throws -> Outcome {
            try Clientctl.run(["feed", "copy", site.feed, target, "--json"] + more)
        }
        let plan = try copy("--dry-run").succeeded("dryRun")
        let done = try copy().succeeded("copied")
        #expect(done["written"] == plan["written"] && done["leftOut"] == .array([.string("index.html")]))
        let order = (done["written"]?.arrayValue ?? []).compactMap(\.stringValue)
        #expect(order.first?.hasPrefix("releases/") == true)
        #expect(order.suffix(3) == ["trust.json", "channels/stable.json", "manifest.json"])
        try Clientctl.stock(["rm", "\(site.feed)/index.html"])
        #expect(try TreeSnapshot(of: target).files == TreeSnapshot(of: site.feed).files)
        #expect(try copy().succeeded("unchanged")["present"] == .integer(order.count))
        try Clientctl.stock(["rm", "\(target)/manifest.json", "\(target)/releases/v1.0.0/manifest.json"])
        let rest: [JSONValue] = [.string("releases/v1.0.0/manifest.json"), .string("manifest.json")]
        #expect(try copy().succeeded("copied")["written"] == .array(rest))
        try site.publish("1.2.0", ["--rollout", "100%"])
        try copy().succeeded("copied")
        try Clientctl.run(["verify", target, "--trust", site.trust, "--json"]).succeeded("verified")
    }

    @Test func `feed copy rejects an older source and never replaces release files`() throws {
        let site = try filled()
        let target = site.folder.file("copy")
        func copy(_ from: String, _ to: String) throws -> Outcome {
            try Clientctl.run(["feed", "copy", from, to, "--json"])
        }
        try copy(site.feed, target).succeeded("copied")
        try site.publish("1.2.0")
        let before = try TreeSnapshot(of: site.feed)
        try copy(target, site.feed).failed(22, "rollbackAttempt")
        #expect(try TreeSnapshot(of: site.feed) == before)
        try site.folder.write(bytes("{}"), to: "copy/releases/v1.0.0/manifest.json")
        let shown = try contents(ofFile: "\(target)/channels/stable.json")
        try copy(site.feed, target).failed(51, "versionExists")
        #expect(try contents(ofFile: "\(target)/channels/stable.json") == shown)
        try copy(site.folder.file("web-1.0.0"), target).failed(78, "configInvalid")
    }

    @Test func `feed copy rejects another application or an older feed before it copies files`() throws {
        let site = try Site()
        try site.publish("1.9.0", nil, ["--app-id", "com.other.app"])
        let old = site.folder.file("old")
        try Clientctl.run(["feed", "copy", site.feed, old, "--json"]).succeeded("copied")
        try site.publish("2.0.0", nil, ["--app-id", "com.other.app"])
        let before = try TreeSnapshot(of: site.feed)
        func refused(_ source: String, _ status: Int32, _ code: String) throws {
            try Clientctl.run(["feed", "copy", source, site.feed, "--json"]).failed(status, code)
            try Clientctl.run(["feed", "copy", source, site.feed, "--dry-run", "--json"]).failed(status, code)
            #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
        }
        try refused(old, 22, "rollbackAttempt")
        let other = try Site()
        try other.publish("3.0.0", nil, ["--app-id", "com.example.kiosk"])
        try refused(other.feed, 43, "appMismatch")
        let nameless = try Site()
        try nameless.publish("3.0.0")
        try refused(nameless.feed, 43, "appMismatch")
        // The same version with other bytes.
        let same = try Site()
        try same.publish("2.0.0", Site.client("2.0.1"), ["--app-id", "com.other.app"])
        try same.publish("2.1.0", nil, ["--app-id", "com.other.app"])
        try refused(same.feed, 51, "versionExists")
    }

    @Test func `feed copy copies a manifest.json that the publisher lowered`() throws {
        let site = try Site()
        for version in ["1.0.0", "1.1.0"] { try site.publish(version) }
        let target = site.folder.file("copy")
        try Clientctl.run(["feed", "copy", site.feed, target, "--json"]).succeeded("copied")
        try Clientctl.run(["feed", "offer", "1.0.0", "--feed", site.feed, "--json"]).succeeded()
        try Clientctl.run(["feed", "copy", site.feed, target, "--json"]).succeeded("copied")
        #expect(try site.object("\(target)/manifest.json")["version"] == .string("1.0.0"))
    }
}
