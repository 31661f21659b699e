import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@testable import BundleShell

/// Receives the messages at a real socket.
@Suite(.ownThread) struct ServiceManagerTests {
    private static let process: Int32 = 4711

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func manager(_ address: String, _ more: [String: String] = [:]) -> ServiceManager {
        ServiceManager(["NOTIFY_SOCKET": address].merging(more) { $1 }, process: Self.process)
    }

    private func abstractName() -> String { "@clientctl-test-\(getpid())-\(UInt64.random(in: .min ... .max))" }

    @Test func `sends messages to a path`() throws {
        let address = folder.file("notify")
        let socket = try DatagramSocket(address)
        let manager = manager(address)
        manager.ready("listening")
        manager.status("one\ntwo\r\nthree")
        manager.stopping()
        #expect(try socket.next() == "READY=1\nSTATUS=listening")
        #expect(try socket.next() == "STATUS=one two three")
        #expect(try socket.next() == "STOPPING=1\nSTATUS=stopping")
    }

    @Test func `sends messages to an abstract name`() throws {
        let address = abstractName()
        let socket = try DatagramSocket(address)
        manager(address).status("here")
        #expect(try socket.next() == "STATUS=here")
    }

    @Test func `drops messages without a manager`() async {
        for address in [
            "", "/", "@", "relative", "vsock:2:1234", folder.file("nobody"), abstractName(),
            "/" + String(repeating: "x", count: 108),
        ] {
            let manager = manager(address)
            manager.ready("x")
            manager.stopping()
        }
        let none = ServiceManager([:], process: Self.process)
        none.ready("x")
        await none.beat { Issue.record("no manager expects messages") }
    }

    @Test(arguments: [
        (["WATCHDOG_USEC": "30000000"], Duration.seconds(30)), (["WATCHDOG_USEC": "1"], .microseconds(1)),
        (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "4711"], .seconds(30)),
        (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "4712"], nil),
        (["WATCHDOG_USEC": "30000000", "WATCHDOG_PID": ""], nil), (["WATCHDOG_USEC": "0"], nil),
        (["WATCHDOG_USEC": "-5"], nil), (["WATCHDOG_USEC": "30s"], nil), (["WATCHDOG_PID": "4711"], nil), ([:], nil),
    ])
    func `reads the watchdog time from the environment`(variables: [String: String], time: Duration?) {
        #expect(manager("/run/notify", variables).watchdog == time)
    }

    @Test func `ignores the watchdog without a socket`() {
        #expect(ServiceManager(["WATCHDOG_USEC": "30000000"], process: Self.process).watchdog == nil)
    }

    /// Runs in its own process, because no other thread may read the environment.
    @Test func `removes the variables from the environment`() async {
        await #expect(processExitsWith: .success) {
            let variables = [
                "NOTIFY_SOCKET": "/nonexistent/notify", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "\(getpid())",
            ]
            for (name, value) in variables { setenv(name, value, 1) }
            let manager = ServiceManager.adopt()
            #expect(manager.watchdog == .seconds(5))
            #expect(variables.keys.filter { getenv($0) != nil } == [])
        }
    }

    @Test func `sends two keep-alive messages per watchdog time while the process responds`() async throws {
        let address = folder.file("notify")
        let socket = try DatagramSocket(address)
        let manager = manager(address, ["WATCHDOG_USEC": "10000000"])
        let clock = ManualClock()
        let gate = AnswerGate()
        let beating = Task { await manager.beat(clock: clock) { await gate.pass() } }
        #expect(try socket.next() == "WATCHDOG=1")
        for beat in 1...3 {
            await clock.sleeper(until: .seconds(5) * beat)
            #expect(try socket.next(within: 0) == nil, "it is not time yet")
            clock.advance(by: .seconds(5))
            #expect(try socket.next() == "WATCHDOG=1")
        }
        // The process hangs.
        await gate.close()
        await clock.sleeper(until: .seconds(20))
        clock.advance(by: .seconds(5))
        await gate.waiter()
        clock.advance(by: .seconds(100))
        #expect(try socket.next(within: 300) == nil)
        await gate.open()
        #expect(try socket.next() == "WATCHDOG=1")
        beating.cancel()
        await beating.value
    }
}

/// Returns at once while it is open, and waits while it is closed.
private actor AnswerGate {
    private var isOpen = true
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var watchers: [CheckedContinuation<Void, Never>] = []

    func pass() async {
        if isOpen { return }
        await withCheckedContinuation { continuation in
            waiting.append(continuation)
            for watcher in watchers { watcher.resume() }
            watchers = []
        }
    }

    func close() { isOpen = false }

    func open() {
        isOpen = true
        for continuation in waiting { continuation.resume() }
        waiting = []
    }

    /// Waits for a waiting call.
    func waiter() async {
        if waiting.isEmpty { await withCheckedContinuation { watchers.append($0) } }
    }
}
