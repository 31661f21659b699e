import Testing

@testable import BundleCore
import BundleValues

struct StartupWatchdogTests {
    private typealias Event = StartupWatchdog.WatchdogEvent
    private typealias Action = StartupWatchdog.WatchdogAction

    private static let inTime = "the page did not call startupDidComplete() within 10s"

    /// Returns a watchdog of 10 s after these events, each at its second.
    private static func watchdog(_ events: [(Event, Int)]) -> StartupWatchdog {
        var watchdog = StartupWatchdog(timeout: .standard)
        for (event, second) in events { _ = watchdog.handle(event, at: .seconds(second)) }
        return watchdog
    }

    private static let histories: [String: [(Event, Int)]] = [
        "idle": [], "waiting": [(.started, 0)], "paused": [(.started, 0), (.paused, 3)],
        "confirmed": [(.started, 0), (.confirmed, 3)],
        "timed out": [(.started, 0), (.woken, 10)],
    ]

    /// The event is at 4 s; a pause began at 3 s.
    @Test(
        arguments: [
            ("idle", .started, .wake(at: .seconds(14))),
            ("idle", .paused, nil), ("idle", .resumed, nil), ("idle", .confirmed, nil),
            ("idle", .woken, nil),
            ("waiting", .started, nil),
            ("waiting", .paused, .sleep),
            ("waiting", .resumed, nil),
            ("waiting", .confirmed, .settle(.healthy)),
            ("waiting", .woken, .wake(at: .seconds(10))),
            ("paused", .started, nil), ("paused", .paused, nil),
            ("paused", .resumed, .wake(at: .seconds(11))),
            ("paused", .confirmed, .settle(.healthy)),
            ("paused", .woken, nil),
        ] as [(String, StartupWatchdog.WatchdogEvent, StartupWatchdog.WatchdogAction?)])
    func `handles each event in each state`(
        state: String, event: StartupWatchdog.WatchdogEvent, action: StartupWatchdog.WatchdogAction?
    ) throws {
        var watchdog = Self.watchdog(try #require(Self.histories[state]))
        #expect(watchdog.handle(event, at: .seconds(4)) == action)
    }

    @Test(arguments: ["confirmed", "timed out"])
    func `ignores events after the verdict`(end: String) throws {
        let over = Self.watchdog(try #require(Self.histories[end]))
        for event in [.started, .paused, .resumed, .confirmed, .woken, .extended(.seconds(6))] as [Event] {
            var watchdog = over
            #expect(watchdog.handle(event, at: .seconds(99)) == nil)
            #expect(watchdog == over)
        }
    }

    @Test(arguments: [(9, false), (10, true), (11, true), (1_000_000, true)])
    func `fails a start exactly at its timeout, however late the wake-up`(second: Int, isFaulty: Bool) {
        var watchdog = Self.watchdog([(.started, 0)])
        let action = watchdog.handle(.woken, at: .seconds(second))
        #expect(action == (isFaulty ? .settle(.faulty(.notConfirmed, Self.inTime)) : .wake(at: .seconds(10))))
    }

    @Test func `stops the time exactly during pauses`() {
        var watchdog = StartupWatchdog(timeout: .standard)
        var now = Duration.seconds(1000)
        _ = watchdog.handle(.started, at: now)
        // The sum of 99 pieces of 101 ms is one millisecond less than 10 s.
        for piece in 1...99 {
            now += .milliseconds(101)
            #expect(watchdog.handle(.paused, at: now) == .sleep)
            now += .seconds(3600 * piece)
            #expect(watchdog.handle(.woken, at: now) == nil)
            let left = Duration.seconds(10) - .milliseconds(101) * piece
            #expect(watchdog.handle(.resumed, at: now) == .wake(at: now + left))
        }
        #expect(watchdog.handle(.woken, at: now) == .wake(at: now + .milliseconds(1)))
        #expect(watchdog.handle(.woken, at: now + .milliseconds(1)) == .settle(.faulty(.notConfirmed, Self.inTime)))
    }

    @Test func `an extension never shortens the time, and continues after a pause`() {
        var watchdog = Self.watchdog([(.started, 0)])
        #expect(watchdog.handle(.extended(.seconds(6)), at: .seconds(1)) == .wake(at: .seconds(10)))
        #expect(watchdog.handle(.extended(.seconds(6)), at: .seconds(9)) == .wake(at: .seconds(15)))
        #expect(watchdog.handle(.paused, at: .seconds(14)) == .sleep)
        #expect(watchdog.handle(.extended(.seconds(6)), at: .seconds(20)) == nil)
        #expect(watchdog.handle(.resumed, at: .seconds(30)) == .wake(at: .seconds(36)))
    }

    @Test func `fails a start that was paused after its timeout at the next wake-up`() {
        var watchdog = Self.watchdog([(.started, 0), (.paused, 12)])
        #expect(watchdog.handle(.resumed, at: .seconds(20)) == .wake(at: .seconds(20)))
        #expect(watchdog.handle(.woken, at: .seconds(20)) == .settle(.faulty(.notConfirmed, Self.inTime)))
    }

    @Test(
        arguments: [(99, nil), (100, "100ms"), (600_000, "10m"), (600_001, nil), (0, nil), (-1, nil)]
            as [(Int, String?)])
    func `accepts timeouts between 100 ms and 10 min`(milliseconds: Int, shown: String?) throws {
        guard let shown else {
            let error = #expect(throws: StartupTimeoutError.self) { try StartupTimeout(.milliseconds(milliseconds)) }
            #expect(error?.description.contains("100ms to 10m") == true)
            return
        }
        let timeout = try StartupTimeout(.milliseconds(milliseconds))
        #expect(DurationText(timeout.duration).description == shown)
        #expect(StartupTimeout.standard.duration == .seconds(10))
    }
}
