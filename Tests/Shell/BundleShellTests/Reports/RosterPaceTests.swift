import BundleValues
import Testing

@testable import BundleShell

@Suite("RosterPace") struct RosterPaceTests {
    private var pace = RosterPace(every: .seconds(900), first: .seconds(20))

    private mutating func send(at time: Duration, failed: Bool = false, asked: Duration? = nil) {
        pace.begin(at: time)
        pace.end(at: time, failed: failed, asked: asked)
    }

    @Test mutating func `sends after each check, at most every 5 minutes`() {
        #expect(pace.next == .seconds(20))
        pace.noteCheck(at: .seconds(10))
        #expect(pace.next == .seconds(10))
        send(at: .seconds(10))
        #expect(pace.next == .seconds(910))
        pace.noteCheck(at: .seconds(70))
        #expect(pace.next == .seconds(310))
    }

    @Test mutating func `sends an event within 10 seconds, also right after a message`() {
        send(at: .seconds(100))
        for delay in [0, 3] {
            pace.noteEvent(at: .seconds(101), delay: .seconds(delay))
            #expect(pace.next <= .seconds(111))
            #expect(pace.next >= .seconds(105))
        }
    }

    @Test(arguments: [false, true])
    mutating func `sends an event that happens while a message is sent`(failed: Bool) {
        pace.begin(at: .seconds(100))
        pace.noteEvent(at: .seconds(101), delay: .zero)
        pace.end(at: .seconds(102), failed: failed, asked: nil)
        #expect(pace.next == .seconds(failed ? 162 : 107))
    }

    @Test mutating func `sends a check that ends while a message is sent`() {
        pace.begin(at: .seconds(100))
        pace.noteCheck(at: .seconds(101))
        pace.end(at: .seconds(102), failed: false, asked: nil)
        #expect(pace.next == .seconds(402))
    }

    @Test mutating func `waits longer after each failure, as long as the host asks, and at most an interval`() {
        send(at: .zero, failed: true)
        #expect(pace.next == .seconds(300))
        pace.noteEvent(at: .seconds(1), delay: .zero)
        #expect(pace.next == .seconds(60))
        send(at: .seconds(60), failed: true, asked: .seconds(600))
        pace.noteEvent(at: .seconds(61), delay: .zero)
        #expect(pace.next == .seconds(660))
        for _ in 0..<20 { send(at: .seconds(1000), failed: true) }
        #expect(pace.next == .seconds(1900))
        send(at: .seconds(1900))
        #expect(pace.next == .seconds(2800))
    }

    @Test func `never plans checks more often than every 5 minutes`() {
        #expect(RosterPace.interval(ofChecks: .seconds(10)) == .seconds(300))
        #expect(RosterPace.interval(ofChecks: .seconds(900)) == .seconds(900))
    }
}
