import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Notifications of the built program to a service manager.
@Suite(.ownThread) struct ServiceTests {
    private let site: Site
    private let address: String
    private let socket: DatagramSocket

    init() throws {
        site = try Site()
        address = site.folder.file("notify")
        socket = try DatagramSocket(address)
        try site.folder.writeTree(Site.client("seed"), to: "seed")
    }

    private var place: [String] {
        ["--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed")]
    }

    @Test func `serve notifies systemd when it is ready, shows a client and stops`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let serving = try ServeRun(place, environment: ["NOTIFY_SOCKET": address])
        #expect(try socket.next() == "READY=1\nSTATUS=listening at http://127.0.0.1:\(serving.port)/")
        _ = try serving.loadPage()
        #expect(try socket.next() == "STATUS=v1.0.0 is shown, on trial")
        try serving.stop()
        let rest = try socket.drain()
        #expect(rest.last == "STOPPING=1\nSTATUS=stopping")
        #expect(!rest.contains { $0.contains("WATCHDOG") }, "no keep-alive was requested")
    }

    @Test func `host notifies an abstract socket and sends keep-alives`() throws {
        try site.publish("1.0.0")
        let name = "@clientctl-feed-\(getpid())-\(UInt64.random(in: .min ... .max))"
        let socket = try DatagramSocket(name)
        let program = try Clientctl.start(
            ["feed", "serve", site.feed], environment: ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"])
        #expect(try socket.next()?.hasPrefix("READY=1\nSTATUS=listening on port ") == true)
        for _ in 0..<3 { #expect(try socket.next() == "WATCHDOG=1") }
        program.send(SIGTERM)
        #expect(try socket.next { $0.hasPrefix("STOPPING=1") } != nil)
        #expect(try program.wait(within: .seconds(60))?.status == 0)
    }

    private static let canTrace =
        (try? Program.run(["strace", "-o", "/dev/null", "true"], environment: Clientctl.environment()))?.status == 0

    @Test(.enabled(if: canTrace, "no strace"))
    func `host handles a signal that arrives with its first output`() throws {
        try site.publish("1.0.0")
        // The first signal handler of each thread is delayed. With -D, the tracer is not a child of the test.
        let program = try Program(
            [
                "strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=rt_sigaction", "-e",
                "inject=rt_sigaction:delay_enter=300000:when=1", Clientctl.path, "feed", "serve", site.feed,
            ], environment: Clientctl.environment())
        let deadline = ContinuousClock.now + .seconds(60)
        while try program.printed().output.isEmpty, ContinuousClock.now < deadline { poll(nil, 0, 5) }
        program.send(SIGTERM)
        #expect(try program.wait(within: .seconds(60))?.status == 0)
    }

    @Test func `serve sends no READY when it cannot start`() throws {
        let refused = try Clientctl.run(
            ["serve", "--store", site.folder.file("none"), "--shell-version", "1.5.0", "--port", "0"],
            environment: ["NOTIFY_SOCKET": address])
        #expect(refused.status == 78)
        #expect(try socket.drain() == [])
    }

    @Test func `serve ignores a missing service manager and a watchdog of another process`() throws {
        for environment in [
            ["NOTIFY_SOCKET": site.folder.file("nobody"), "WATCHDOG_USEC": "100000"], ["NOTIFY_SOCKET": "nonsense"],
            ["WATCHDOG_USEC": "100000"],
        ] { try ServeRun(place, environment: environment).stop() }
        let other = try ServeRun(
            place, environment: ["NOTIFY_SOCKET": address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"])
        try other.stop()
        #expect(try !socket.drain().contains("WATCHDOG=1"))
    }

    @Test(arguments: [false, true])
    func `serve sends keep-alives and metrics while it shows a seed without a store`(isStopped: Bool) throws {
        let store = try site.folder.write(bytes("a file"), to: "other")
        let metrics = site.folder.file("clientctl.prom")
        let serving = try ServeRun(
            [
                "--store", store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--metrics-file",
                metrics,
            ],
            environment: ["NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"])
        for _ in 0..<2 { #expect(try socket.next { $0 == "WATCHDOG=1" } != nil) }
        let deadline = ContinuousClock.now + .seconds(60)
        while access(metrics, F_OK) != 0 {
            try #require(ContinuousClock.now < deadline, "no metrics")
            // The socket buffer is small, so the test keeps reading it.
            _ = try socket.drain()
            poll(nil, 0, 20)
        }
        if isStopped {
            serving.program.send(SIGTERM)
            #expect(try socket.next { $0.hasPrefix("STOPPING=1") } != nil)
            #expect(try serving.program.wait(within: .seconds(60))?.status == 0)
            #expect(access(metrics, F_OK) != 0)
            return
        }
        try #require(unlink(store) == 0)
        while access("\(store)/clients", F_OK) != 0 {
            try #require(ContinuousClock.now < deadline, "no store")
            poll(nil, 0, 20)
        }
        // The shell's metrics writer replaces the one of the seed.
        try #require(unlink(metrics) == 0 || errno == ENOENT)
        while access(metrics, F_OK) != 0 {
            try #require(ContinuousClock.now < deadline, "no metrics of the shell")
            poll(nil, 0, 20)
        }
        #expect(try socket.next { $0 == "WATCHDOG=1" } != nil)
        try serving.stop()
    }

    @Test func `serve sends no keep-alive while the shell hangs`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let serving = try ServeRun(
            place, environment: ["NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"])
        #expect(try socket.next { $0 == "WATCHDOG=1" } != nil)
        // The shell's own thread waits for this lock to record the launch.
        let folder = open(site.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(folder) }
        try #require(flock(folder, LOCK_EX) == 0)
        let page = try RawConnection(port: serving.port)
        page.send("GET / HTTP/1.1\r\nHost: 127.0.0.1:\(serving.port)\r\nAccept: text/html\r\n\r\n")
        // Earlier keep-alives may still arrive. The wait is ten times their interval.
        let deadline = ContinuousClock.now + .seconds(60)
        while try socket.next(within: 2000) != nil {
            try #require(ContinuousClock.now < deadline, "keep-alives continue")
        }
        try #require(flock(folder, LOCK_UN) == 0)
        #expect(try socket.next { $0 == "WATCHDOG=1" } != nil)
        #expect(try page.receiveAnswer().status == 200)
        try serving.stop()
    }
}
