import BundleTesting
import Testing

@testable import BundleTransport

@Suite("BackoffRule, Heartbeat, SocketURL and MessageQueue") struct RuleTests {
    @Test(arguments: [
        (0, 1.0, 1), (1, 1, 2), (3, 1, 8), (8, 1, 256), (9, 1, 300), (1_000_000, 1, 300), (4, 0, 0), (4, -3, 0),
        (4, 9, 16),
        (4, .nan, 16), (4, 0.25, 4),
    ])
    func `waits a part of a ceiling that doubles`(_ losses: Int, _ draw: Double, _ seconds: Int) {
        #expect(BackoffRule().wait(losses: losses) { _ in draw } == .seconds(seconds))
    }

    @Test func `spreads waits over the whole range and never exceeds the ceiling`() {
        var generator = SeededGenerator(seed: 6)
        let rule = BackoffRule()
        var tenths = [Int](repeating: 0, count: 10)
        for _ in 0..<2000 {
            let wait = rule.wait(losses: 4) { Double.random(in: $0, using: &generator) }
            #expect((.zero ... .seconds(16)).contains(wait))
            tenths[min(9, Int(wait / .seconds(1.6)))] += 1
        }
        #expect(tenths.allSatisfy { (140...260).contains($0) })
    }

    @Test func `adds the wait that a server asks for, up to a limit`() {
        let rule = BackoffRule()
        #expect(rule.wait(losses: 0, asked: .seconds(10)) { _ in 0.5 } == .seconds(10.5))
        #expect(rule.wait(losses: 0, asked: .seconds(100_000)) { _ in 0 } == .seconds(3600))
        #expect(rule.wait(losses: 0, asked: .seconds(-10)) { _ in 1 } == .seconds(1))
    }

    @Test func `returns a wait for a rule that does not grow`() {
        var rule = BackoffRule()
        rule.first = .zero
        #expect(rule.wait(losses: .max) { _ in 1 } == .zero)
    }

    @Test func `waits briefly after the first losses for any random number`() {
        var rule = BackoffRule()
        rule.soonLosses = 2
        rule.spread = 0.75...1.25
        for losses in 0...1 { #expect(rule.wait(losses: losses) { _ in 1 } == .milliseconds(10)) }
        #expect(rule.wait(losses: 2) { $0.lowerBound } == .seconds(3))
        #expect(rule.wait(losses: 2) { _ in 9 } == .seconds(5))
    }

    @Test func `pings a silent peer once before the timeout`() {
        var heart = Heartbeat(HeartbeatRule(), now: .seconds(100))
        #expect(heart.step(.seconds(100)) == .wait(until: .seconds(130)))
        #expect(heart.step(.seconds(129.9)) == .wait(until: .seconds(130)))
        #expect(heart.step(.seconds(130)) == .ping)
        #expect(heart.step(.seconds(130)) == .wait(until: .seconds(145)))
        #expect(heart.step(.seconds(145)) == .dead)
        heart.received(.seconds(145))
        #expect(heart.step(.seconds(150)) == .wait(until: .seconds(175)))
        heart.beginProcessing()
        #expect(heart.step(.seconds(1000)) == .wait(until: .seconds(1030)))
        heart.endProcessing(.seconds(1001))
        #expect(heart.step(.seconds(1030)) == .wait(until: .seconds(1031)))
        #expect(heart.step(.seconds(1031)) == .ping)
    }

    @Test(arguments: [
        ("ws://host", false, "host", 80, "/", "ws://host/"),
        (
            "WSS://Host.Example:443/push?channel=stable", true, "host.example", 443, "/push?channel=stable",
            "wss://host.example/push?channel=stable"
        ),
        ("http://127.0.0.1:8080/x", false, "127.0.0.1", 8080, "/x", "ws://127.0.0.1:8080/x"),
        ("https://[::1]:9/", true, "::1", 9, "/", "wss://[::1]:9/"),
        ("ws://host?x", false, "host", 80, "/?x", "ws://host/?x"),
        ("ws://a_b-c.d:/x", false, "a_b-c.d", 80, "/x", "ws://a_b-c.d/x"),
    ])
    func `parses the URL of a socket`(
        _ text: String, _ isSecure: Bool, _ host: String, _ port: Int, _ target: String, _ shown: String
    ) throws {
        let url = try SocketURL(parsing: text)
        #expect(url.isSecure == isSecure)
        #expect(url.host == host)
        #expect(url.port == port)
        #expect(url.target == target)
        #expect(url.description == shown)
        #expect(try SocketURL(parsing: shown) == url)
    }

    @Test(arguments: [
        "", "ws:", "ws://", "ws:///x", "host", "ftp://host", "wss//host", "ws://host:0", "ws://host:65536",
        "ws://host:8a",
        "ws://host:+8", "ws://host:999999", "ws://user@host", "ws://user:word@host/", "ws://host/a#b", "ws://host/a b",
        "ws://host/\r\nX: y", "ws://h\u{0}st", "ws://höst", "ws://host\\x", "ws://[::1", "ws://[]", "ws://[x]",
        "ws://[::1]x",
        "ws://::1", "ws://a,b", "ws://" + String(repeating: "a", count: 254),
        "ws://h/" + String(repeating: "a", count: 2048),
    ])
    func `rejects a text that is not the URL of a socket`(_ text: String) {
        #expect(throws: TransportError.self) { try SocketURL(parsing: text) }
    }

    @Test func `does not trap on URLs of random bytes`() {
        var generator = SeededGenerator(seed: 17)
        let pieces = [
            "ws://", "wss://", "[", "]", ":", "/", "@", "#", "?", "::1", "host", "80", "\u{0}", "ü", "%", ".",
        ]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...8, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
            if let url = try? SocketURL(parsing: text) {
                #expect(url.description.utf8.allSatisfy { (0x21...0x7E).contains($0) })
                #expect(url.target.hasPrefix("/"))
                #expect((try? SocketURL(parsing: url.description)) == url)
            }
        }
    }

    @Test func `escapes control characters of a rejected URL`() {
        let error = #expect(throws: TransportError.self) {
            try SocketURL(parsing: "ws://h\u{1B}[31m")
        }
        #expect(error?.description.utf8.contains(0x1B) == false)
        #expect(error?.description.contains("percent-encoded") == true)
    }

    @Test func `keeps one of several pongs, and reports a full queue`() async throws {
        let queue = MessageQueue(MessageQueue.Limit(messages: 3, bytes: 10))
        for _ in 0..<100 { #expect(queue.add(.pong)) }
        #expect(queue.count == 1)
        #expect(queue.add(.text("1")))
        #expect(!queue.add(.pong))
        #expect(!queue.hasRoom)
        for _ in 0..<3 { _ = try await queue.take() }
        #expect(queue.hasRoom)
        // Only one message, but too many bytes.
        #expect(!queue.add(.binary([UInt8](repeating: 0, count: 10))))
        queue.end(.lost("cut"))
        #expect(queue.add(.text("behind the end")))
        #expect(try await queue.take() == .binary([UInt8](repeating: 0, count: 10)))
        await #expect(throws: TransportError.lost("cut")) { try await queue.take() }
    }

    @Test func `leaves nothing behind when a waiting task is cancelled`() async throws {
        let queue = MessageQueue(MessageQueue.Limit(messages: 1, bytes: 10))
        for _ in 0..<50 {
            let taking = Task { try await queue.take() }
            taking.cancel()
            await #expect(throws: CancellationError.self) { try await taking.value }
        }
        #expect(queue.waiters <= 1)
        queue.add(.text("full"))
        for _ in 0..<50 {
            let giving = Task { try await queue.put(.text("more")) }
            giving.cancel()
            await #expect(throws: CancellationError.self) { try await giving.value }
        }
        #expect(queue.waiters <= 1)
        #expect(try await queue.take() == .text("full"))
        #expect(queue.count == 0)
    }
}
