import ArchiveSource
import BundleTransport
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl feed serve --upstream`: announcements for devices of a feed that another server serves.
@Suite(.ownThread) struct RelayTests {
    private let site: ChannelSite

    init() throws {
        site = try ChannelSite()
        try site.publish("1.0.0").succeeded()
    }

    private func hello(_ socket: any SyncTransport) async throws {
        #expect(try await socket.next() == .hello(version: 1))
    }

    private func serve(_ upstream: String, push: String) throws -> NotifiedServe {
        let seed = try site.folder.writeTree(["index.html": bytes("<p>seed")], to: "seed")
        return try NotifiedServe(
            store: site.folder.file("store"), seed: seed,
            [
                "--app-id", ChannelSite.appId, "--channel", "\(upstream)channels/stable.json", "--trust", site.pinned,
                "--push", push,
            ])
    }

    // MARK: Devices

    @Test func `a device behind a relay installs a release when it is published`() throws {
        let host = try Hosting(site.feed)
        let relay = try Hosting(relaying: host.url)
        let device = try serve(host.url, push: "\(relay.url)push")
        try device.wait(untilInstalled: "v1.0.0")
        try device.wait(until: "listening to ws://127.0.0.1:\(relay.port)/push")
        try relay.wait(until: "channels/stable.json; sequence 1")
        try site.publish("1.0.1").succeeded()
        try device.wait(untilInstalled: "v1.0.1")
        #expect((1...2).contains(try device.announced().count { $0 == 2 }))
        try relay.wait(until: "announced sequence 2 of the channel stable")
        #expect(try !relay.program.printed().errors.contains("announced sequence 1 "))
        #expect(try !relay.program.printed().errors.contains("ETag"))
        withExtendedLifetime(host) {}
    }

    @Test func `devices reconnect to another relay when one is killed`() throws {
        let host = try Hosting(site.feed)
        let relays = try [Hosting(relaying: host.url), Hosting(relaying: host.url)]
        let balancer = try Balancer(before: relays.map(\.port))
        let device = try serve(host.url, push: "ws://127.0.0.1:\(balancer.port)/push")
        try device.wait(untilInstalled: "v1.0.0")
        try relays[0].wait(until: "watching ")
        relays[0].program.send(SIGKILL)
        _ = try relays[0].program.wait()
        try device.wait(until: "cannot listen to")
        try site.publish("1.0.1").succeeded()
        try device.wait(untilInstalled: "v1.0.1")
        try relays[1].wait(until: "watching ")
        try site.publish("1.0.2").succeeded()
        try device.wait(untilInstalled: "v1.0.2")
        withExtendedLifetime((host, relays, balancer)) {}
    }

    // MARK: Sockets

    @Test func `parallel relays announce each requested channel and each change`() async throws {
        try site.publish("1.0.0", channel: "beta").succeeded()
        let host = try Hosting(site.feed)
        for relay in try [Hosting(relaying: host.url), Hosting(relaying: host.url)] {
            let old = try await relay.listen()
            try await hello(old)
            #expect(try await old.next() == .release(channel: "stable", sequence: 1))
            let beta = try await relay.listen(for: "beta")
            try await hello(beta)
            let first = try await beta.next()
            guard case .release("beta", let sequence, _)? = first else {
                Issue.record("\(String(describing: first))")
                return
            }
            // A socket without a channel receives all channels that other sockets request.
            #expect(try await old.next() == first)
            let late = try await relay.listen(for: "beta")
            try await hello(late)
            #expect(try await late.next() == first)
            try site.channel("renew", channel: "beta").succeeded()
            for socket in [beta, late, old] {
                #expect(try await socket.next() == .release(channel: "beta", sequence: sequence + 1))
            }
        }
    }

    @Test func `sockets of a relay stay open while the upstream is away, and receive its changes afterwards`()
        async throws
    {
        var host: Hosting? = try Hosting(site.feed)
        let port = try #require(host?.port)
        let relay = try Hosting(relaying: "http://127.0.0.1:\(port)", ["--channel", "stable"])
        let socket = try await relay.listen()
        try await hello(socket)
        #expect(try await socket.next() == .release(channel: "stable", sequence: 1))
        host?.program.send(SIGKILL)
        _ = try host?.program.wait()
        let place = try Socket.closed(port: port)
        try relay.wait(until: "is not reachable")
        try site.publish("1.0.1").succeeded()
        host = try Hosting(site.feed, port: port)
        try relay.wait(until: "watching ", times: 2)
        #expect(try await socket.next() == .release(channel: "stable", sequence: 2))
        #expect(try relay.program.printed().errors.ranges(of: "is not reachable").count == 1)
        let ending = try relay.stop()
        #expect(ending.errors.contains("; sequence 2"))
        #expect(try await socket.receive() == nil)
        withExtendedLifetime((host, place)) {}
    }

    @Test func `a relay starts and warns without its upstream`() async throws {
        let closed = try LoopbackServer()
        let port = closed.port
        closed.stop()
        let relay = try Hosting(relaying: "http://127.0.0.1:\(port)/")
        let socket = try await relay.listen(for: "stable")
        try await hello(socket)
        try relay.wait(until: "is not reachable")
        withExtendedLifetime(closed) {}
    }

    @Test func `a relay polls any web server and warns when it sends no ETag`() async throws {
        let server = try Command([
            "python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", site.feed, "0",
        ])
        let line = server.nextLine()
        let port = try #require(line.firstMatch(of: /port ([0-9]+)/), "\(line)").output.1
        let relay = try Hosting(relaying: "http://127.0.0.1:\(port)/", ["--channel", "stable"])
        let socket = try await relay.listen(for: "stable")
        try await hello(socket)
        #expect(try await socket.next() == .release(channel: "stable", sequence: 1))
        try site.release("pause", "--version", "1.0.0").succeeded()
        #expect(try await socket.next() == .release(channel: "stable", sequence: 2))
        try relay.wait(until: "sends no ETag")
        withExtendedLifetime(server) {}
    }

    @Test func `a relay does not announce an older channel file`() async throws {
        let old = try contents(ofFile: site.feed + "/channels/stable.json")
        try site.publish("1.0.1").succeeded()
        let host = try Hosting(site.feed)
        let relay = try Hosting(relaying: host.url)
        let socket = try await relay.listen(for: "stable")
        try await hello(socket)
        #expect(try await socket.next() == .release(channel: "stable", sequence: 2))
        let new = try contents(ofFile: site.feed + "/channels/stable.json")
        try site.folder.write(old, to: "feed/channels/stable.json")
        try relay.wait(until: "sequence 1, which is older than 2")
        try site.folder.write(new, to: "feed/channels/stable.json")
        try site.publish("1.0.2").succeeded()
        #expect(try await socket.next() == .release(channel: "stable", sequence: 3))
    }

    // MARK: HTTP

    @Test func `a relay answers file requests with 404`() throws {
        let relay = try Hosting(relaying: "http://127.0.0.1:1/")
        #expect(try relay.ask("/healthz").text == "ok\n")
        for path in ["/manifest.json", "/channels/stable.json", "/releases/v1.0.0/manifest.json", "/trust/1.json"] {
            let answer = try relay.ask(path)
            #expect(answer.status == 404)
            #expect(answer.text == "This is a relay without files. Request them from the feed itself.\n")
            #expect(answer["Cache-Control"] == "no-store")
        }
        #expect(try relay.ask("/").status == 404)
        #expect(try relay.ask("/push").status == 426)
    }

    // MARK: Tokens and certificates

    private func secret(_ text: String, to name: String) throws -> String {
        let file = try site.folder.write(bytes(text), to: name)
        try #require(chmod(file, 0o600) == 0)
        return file
    }

    @Test func `a relay sends its own token upstream and requires one of devices`() async throws {
        let (above, below) = (try secret("upstream-t0ken\n", to: "above"), try secret("device-t0ken\n", to: "below"))
        let host = try Hosting(site.feed, ["--token-file", above])
        let stranger = try Hosting(relaying: host.url, ["--channel", "stable"])
        try stranger.wait(until: "answered 401. It requires a valid token: give one with --upstream-token-file.")
        let relay = try Hosting(relaying: host.url, ["--upstream-token-file", above, "--token-file", below])
        await #expect(throws: TransportError.refused(status: 401, retryAfter: nil)) {
            try await relay.listen(for: "stable")
        }
        #expect(try relay.ask("/manifest.json").status == 401)
        let socket = try await relay.listen(token: "device-t0ken", for: "stable")
        try await hello(socket)
        #expect(try await socket.next() == .release(channel: "stable", sequence: 1))
        #expect(try !relay.stop().errors.contains("t0ken"))
    }

    @Test func `a relay trusts an upstream by --ca-file`() async throws {
        let server = try TLSServer(serving: site.feed)
        let upstream = try server.url("/").display
        let strange = try Hosting(relaying: upstream, ["--channel", "stable"])
        try strange.wait(until: "has no trusted connection")
        let relay = try Hosting(relaying: upstream, ["--channel", "stable", "--ca-file", server.caFile])
        try relay.wait(until: "channels/stable.json; sequence 1")
    }

    // MARK: Arguments

    @Test func `host rejects contradictory relay flags`() throws {
        func refused(_ arguments: [String]) throws -> String {
            let outcome = try Clientctl.run(["feed", "serve"] + arguments + ["--json"]).failed(64, "usage")
            return outcome.error["message"]?.stringValue ?? ""
        }
        #expect(try refused([site.feed, "--upstream", "http://127.0.0.1:1/"]).contains("not both"))
        #expect(try refused([site.feed, "--channel", "stable"]).contains("--channel is for --upstream"))
        #expect(try refused([site.feed, "--proxy", "none"]).contains("--proxy is for --upstream"))
        for upstream in ["file://\(site.feed)", site.feed, "ftp://h/", "https://h/?a", "https://user@h/"] {
            #expect(try refused(["--upstream", upstream]).contains("--upstream"), "\(upstream)")
        }
        let channel = ["--channel", "https://h/channels/stable.json"]
        #expect(try refused(["--upstream", "http://127.0.0.1:1/"] + channel).contains("--channel takes the name"))
    }

    @Test func `host reads a folder or an upstream from the environment and ignores empty values`() throws {
        func message(_ environment: [String: String]) throws -> String {
            let outcome = try Clientctl.run(["feed", "serve", "--json"], environment: environment).failed(64, "usage")
            return outcome.error["message"]?.stringValue ?? ""
        }
        let upstream = ["CLIENTCTL_UPSTREAM": "file:///srv/feed"]
        #expect(try message(upstream).contains("--upstream:"))
        #expect(try message(upstream.merging(["CLIENTCTL_FEED": ""]) { $1 }).contains("--upstream:"))
        #expect(try message(upstream.merging(["CLIENTCTL_FEED": site.feed]) { $1 }).contains("not both"))
        #expect(try message(["CLIENTCTL_FEED": "", "CLIENTCTL_UPSTREAM": ""]).contains("Missing <feed>"))
    }

    @Test func `host with a folder ignores relay settings of a shared configuration`() throws {
        let config = try site.folder.write(
            bytes(#"{"channel": "https://h/channels/stable.json", "upstream": "https://h/"}"#), to: "config.json")
        let host = try Hosting(site.feed, ["--config", config])
        #expect(try host.ask("/channels/stable.json").status == 200)
    }
}
