import ArchiveSource
import BundleSockets
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import MeteorTesting
import Testing

/// `serve` with notifications: releases that a host announces and versions that a Meteor server states. It polls once
/// a day.
@Suite(.ownThread) struct ServePushTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private func serve(_ more: [String], environment: [String: String] = [:]) throws -> NotifiedServe {
        let seed = try site.folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        return try NotifiedServe(
            store: site.folder.file("store"), seed: seed, ["--app-id", ChannelSite.appId] + more,
            environment: environment)
    }

    private func following(_ host: Hosting) -> [String] {
        ["--channel", "\(host.url)channels/stable.json", "--trust", site.pinned, "--push", "\(host.url)push"]
    }

    // MARK: A host

    @Test func `serve installs a release without polling when its channel changes`() throws {
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed)
        let serving = try serve(following(host))
        try serving.wait(untilInstalled: "v1.0.0")
        try serving.wait(until: "listening to ")
        try site.publish("1.0.1").succeeded()
        try serving.wait(untilInstalled: "v1.0.1")
        #expect(try serving.announced().contains(2))
        // A change of another channel and the same channel file again cause no check.
        try site.publish("1.0.1", channel: "beta").succeeded()
        try site.publish("1.0.2").succeeded()
        try serving.wait(untilInstalled: "v1.0.2")
        let announced = try serving.announced()
        #expect(announced == announced.sorted() && Set(announced).isSubset(of: [1, 2, 3]), "\(announced)")
        #expect(announced.allSatisfy { one in announced.count { $0 == one } <= 2 }, "\(announced)")
        #expect(try serving.count("listening to ") == 1)
    }

    @Test func `serve reconnects to a restarted host and installs missed releases`() throws {
        try site.publish("1.0.0").succeeded()
        var host: Hosting? = try Hosting(site.feed)
        let port = try #require(host?.port)
        let serving = try serve(following(try #require(host)))
        try serving.wait(untilInstalled: "v1.0.0")
        try serving.wait(until: "listening to ")
        host?.program.send(SIGKILL)
        _ = try host?.program.wait()
        let place = try Socket.closed(port: port)
        try serving.wait(until: "cannot listen to")
        try site.publish("1.0.1").succeeded()
        host = try Hosting(site.feed, port: port)
        try serving.wait(untilInstalled: "v1.0.1")
        try site.publish("1.0.2").succeeded()
        try serving.wait(untilInstalled: "v1.0.2")
        #expect(try serving.count("cannot listen to") == 1)
        #expect(try serving.count("listening to ") == 2)
        withExtendedLifetime((host, place)) {}
    }

    @Test func `metrics report whether serve is connected to its host`() throws {
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed)
        let seed = try site.folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        let run = try ServeRun(
            [
                "--store", site.folder.file("store"), "--shell-version", "1.5.0", "--seed", seed, "--app-id",
                ChannelSite.appId,
            ]
                + following(host) + ["--check-interval", "24h"])
        let link = "clientctl_link_up{to=\"host\"}"
        try run.wait(for: "the host is listened to") { $0[link] == 1 }
        host.program.send(SIGKILL)
        _ = try host.program.wait()
        try run.wait(for: "the host is gone") { $0[link] == 0 }
        try run.stop()
    }

    @Test func `serve with --manifest follows the announcements of the channel stable`() throws {
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed)
        let serving = try serve([
            "--manifest", "\(host.url)manifest.json", "--trust", site.pinned, "--push", "\(host.url)push",
        ])
        try serving.wait(until: "announces sequence 1 of the channel stable")
        try site.publish("1.0.1").succeeded()
        try serving.wait(untilInstalled: "v1.0.1")
    }

    // MARK: Tokens and certificates

    @Test(arguments: [true, false])
    func `serve sends its token only to sockets of the feed's origin`(isSession: Bool) throws {
        let secret = "s3cret-token"
        let token = try self.secret(secret, to: "token")
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed, ["--token-file", token])
        let store = site.folder.file("store")
        if isSession {
            try Clientctl.run(["session", "login", "--store", store, "--token-file", token, "--create", "--json"])
                .succeeded()
        }
        let more = isSession ? [] : ["--token-file", token]
        let serving = try serve(following(host) + more)
        try serving.wait(until: "listening to ")
        try site.publish("1.0.1").succeeded()
        try serving.wait(untilInstalled: "v1.0.1")
        #expect(try !serving.errors().contains(secret))
        serving.program.send(SIGTERM)
        _ = try serving.program.wait()

        let other = try LoopbackServer(["/push?channel=stable": Route(status: 403)])
        let foreign = try serve(
            following(host).dropLast() + ["ws://127.0.0.1:\(other.port)/push"] + more)
        #expect(other.wait(for: "/push?channel=stable"))
        #expect(other.requests.allSatisfy { $0["Authorization"] == nil })
        try foreign.wait(until: "responded with status 403")
    }

    @Test func `serve checks at once after a login`() throws {
        // One token each: a second login with the same token in the same second is the same session.
        for name in ["morning", "evening"] { try secret("\(name)-s3cret", to: name) }
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(
            site.feed, ["--token-file", try secret("morning-s3cret\nevening-s3cret\n", to: "tokens")])
        let store = site.folder.file("store")
        let serving = try serve(Array(following(host).dropLast(2)))
        try serving.waitUntilItListens()
        for (version, shift) in [("1.0.0", "morning"), ("1.0.1", "evening")] {
            if version != "1.0.0" { try site.publish(version).succeeded() }
            let token = site.folder.file(shift)
            try Clientctl.run(["session", "login", "--store", store, "--token-file", token, "--create", "--json"])
                .succeeded()
            try serving.wait(untilInstalled: "v\(version)")
        }
    }

    @Test func `--login-command renews a rejected or expiring session, but not one that was logged out`()
        throws
    {
        let word = "s3cret-token"
        let token = try secret("wr0ng\n", to: "token")
        let right = try secret(word, to: "right")
        try site.publish("1.0.0").succeeded()
        let host = try Hosting(site.feed, ["--token-file", right])
        let store = site.folder.file("store")
        let calls = site.folder.file("calls")
        let command = "sh -c 'echo x$CLIENTCTL_PASSPHRASE >>\(calls); printf \"%s\\n12h\\n\" \(word)'"
        try Clientctl.run([
            "session", "login", "--store", store, "--token-file", token, "--expires", "30s", "--create", "--json",
        ])
        .succeeded()
        let serving = try serve(
            Array(following(host).dropLast(2)) + ["--login-command", command],
            environment: ["CLIENTCTL_PASSPHRASE": "horse"])
        try serving.wait(untilInstalled: "v1.0.0")
        try serving.wait(until: "logged in by the command of --login-command")
        let session = try Clientctl.run(["status", "--store", store, "--json"])["session"]?.objectValue
        let expires = try Timestamp(parsing: session?["expires"]?.stringValue ?? "")
        #expect(expires.secondsSinceEpoch - Timestamp.now.secondsSinceEpoch > 3600)
        try Clientctl.run(["session", "login", "--store", store, "--token-file", token, "--create", "--json"])
            .succeeded()
        try serving.wait(until: "logged in by the command of --login-command", times: 2)
        #expect(try !serving.errors().contains(word))
        try Clientctl.run(["session", "logout", "--store", store, "--json"]).succeeded()
        try serving.wait(until: "no user is logged in")
        #expect(try contents(ofFile: calls) == bytes("x\nx\n"))
    }

    @discardableResult private func secret(_ text: String, to name: String) throws -> String {
        let file = try site.folder.write(bytes(text), to: name)
        try #require(chmod(file, 0o600) == 0)
        return file
    }

    private static let canMakeNetworks: Bool =
        (try? Program.run(["unshare", "-n", "ip", "link", "set", "lo", "up"], environment: Clientctl.environment())
            .status) == 0

    @Test(.enabled(if: canMakeNetworks, "no network of its own: not root, or no ip"))
    func `serve checks soon after the machine gets a route to a network`() throws {
        let site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
        try site.publish("1.0.0")
        let run = try ServeRun(
            [
                "--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--manifest",
                site.manifest,
                "--trust", site.trust, "--check-interval", "24h",
            ], wrapper: ["unshare", "-n", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        let process = try #require(run.program.threads().first).split(separator: "/")[1]
        let inside = ["nsenter", "--net=/proc/\(process)/ns/net", "ip"]
        try Clientctl.stock(inside + ["route", "add", "default", "dev", "lo"])
        let deadline = ContinuousClock.now + .seconds(60)
        while try site.list().strings("versions") != ["embedded", "v1.0.0"] {
            let said = try run.program.printed().errors
            try #require(ContinuousClock.now < deadline, "\(said)")
            poll(nil, 0, 50)
        }
        try run.stop()
    }

    @Test func `serve applies --ca-file to sockets and logs an untrusted host once`() async throws {
        try site.publish("1.0.0").succeeded()
        let authority = try TestAuthority(names: "IP:127.0.0.1")
        let hub = SocketHub()
        let server = try await SocketServer.start(
            WebSocketUpgrade(UpgradeRule(path: "/push")) { socket, _ in hub.add(socket) })
        let front = try TLSFront(authority, before: server.port)
        let flags = [
            "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--push",
            "https://127.0.0.1:\(front.port)/push",
        ]
        let trusting = try serve(flags + ["--ca-file", authority.authorityFile])
        try trusting.wait(until: "listening to wss://127.0.0.1:\(front.port)/push")
        try site.publish("1.0.1").succeeded()
        hub.announce(SyncMessage.release(channel: "stable", sequence: 2).text, topic: "stable")
        try trusting.wait(untilInstalled: "v1.0.1")
        trusting.program.send(SIGTERM)
        _ = try trusting.program.wait()

        let strange = try serve(flags)
        try strange.wait(until: "certificate is not trusted")
        await server.stop()
        await hub.close()
    }

    @Test func `serve connects its sockets through the proxy of the environment`() async throws {
        try site.publish("1.0.0").succeeded()
        let authority = try TestAuthority(names: "DNS:feed.example")
        let hub = SocketHub()
        let server = try await SocketServer.start(
            WebSocketUpgrade(UpgradeRule(path: "/push")) { socket, _ in hub.add(socket) })
        let front = try TLSFront(authority, before: server.port)
        let proxy = try ConnectProxy(to: front.port)
        let serving = try serve(
            [
                "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--push",
                "wss://feed.example/push", "--ca-file", authority.authorityFile,
            ], environment: ["https_proxy": "http://127.0.0.1:\(proxy.port)"])
        try serving.wait(until: "listening to wss://feed.example/push")
        #expect(proxy.nextRequest().hasPrefix("CONNECT feed.example:443 HTTP/1.1|"))
        try site.publish("1.0.1").succeeded()
        hub.announce(SyncMessage.release(channel: "stable", sequence: 2).text, topic: "stable")
        try serving.wait(untilInstalled: "v1.0.1")
        await server.stop()
        await hub.close()
    }

    @Test func `serve logs a host without a socket once`() throws {
        try site.publish("1.0.0").succeeded()
        let other = try LoopbackServer()
        let switchedOff = try LoopbackServer()
        let serving = try serve([
            "--channel", "\(site.feed)/channels/stable.json", "--trust", site.pinned, "--push",
            "ws://127.0.0.1:\(other.port)/push", "--meteor", "http://127.0.0.1:\(switchedOff.port)/", "--sources",
            "archive",
        ])
        let deadline = ContinuousClock.now + .seconds(60)
        while other.requests.count < 3, ContinuousClock.now < deadline { poll(nil, 0, 20) }
        #expect(other.requests.count >= 3)
        #expect(try serving.count("cannot listen to") == 1)
        // A disabled source is not connected.
        #expect(switchedOff.requests.isEmpty)
    }

    @Test(arguments: [
        ["--push", "ws://127.0.0.1/push"], ["--meteor", "http://127.0.0.1:1/", "--push", "ws://127.0.0.1/push"],
        ["--channel", "/nowhere/stable.json", "--push", "ftp://127.0.0.1/push"],
        ["--channel", "/nowhere/stable.json", "--push", "ws://u:p@127.0.0.1/push"],
        ["--channel", "/nowhere/stable.json", "--push", ""],
        ["--channel", "/nowhere/stable.json", "--sources", "meteor", "--push", "ws://127.0.0.1/push"],
    ])
    func `--push requires a socket address and a feed`(flags: [String]) throws {
        let outcome = try Clientctl.run(
            ["serve", "--store", site.folder.file("store"), "--shell-version", "1.5.0", "--json"] + flags)
        outcome.failed(64, "usage")
        #expect(outcome.errors.contains("--push"))
    }
}

/// `serve` with notifications of a Meteor server.
@Suite(.ownThread) struct ServeDDPTests {
    @Test func `serve installs a deployed version of a Meteor server without polling`() throws {
        let push = try PushSite(talksDDP: true)
        let serving = try NotifiedServe(store: push.store, seed: push.seed, ["--meteor", push.server.rootURL])
        try serving.wait(until: "listening to ws://127.0.0.1:")
        try push.serve(.version2)
        try serving.wait(untilInstalled: "meteor-version2")
        // The first check of the device may find the version before the server states it.
        #expect(try serving.count("states version version2") <= 1)
        #expect(push.server.subscriberCount == 1)
    }

    @Test func `serve logs a Meteor server without a socket once`() throws {
        let push = try PushSite()
        let server = try LoopbackServer()
        let serving = try NotifiedServe(
            store: push.store, seed: push.seed, ["--meteor", "http://127.0.0.1:\(server.port)/"])
        let deadline = ContinuousClock.now + .seconds(60)
        while server.requests.count < 3, ContinuousClock.now < deadline { poll(nil, 0, 20) }
        try #require(server.requests.map(\.target).prefix(3) == ["/websocket", "/websocket", "/websocket"])
        #expect(try serving.count("cannot listen to") == 1)
        #expect(try serving.count("responded with status 404") == 1)
    }
}
