import BundleValues
import Testing

@testable import ClientShell

@Suite("RosterPace") struct RosterPaceTests {
    private var pace = RosterPace(every: .seconds(900), first: .seconds(20))

    @Test mutating func `sends after each check, at most every 5 minutes`() {
        #expect(pace.next == .seconds(20))
        pace.noteCheck(at: .seconds(10))
        #expect(pace.next == .seconds(10))
        pace.noteSent(at: .seconds(10), failed: false, asked: nil)
        #expect(pace.next == .seconds(910))
        pace.noteCheck(at: .seconds(70))
        #expect(pace.next == .seconds(310))
    }

    @Test mutating func `sends an event within 10 seconds, also right after a message`() {
        pace.noteSent(at: .seconds(100), failed: false, asked: nil)
        for delay in [0, 3] {
            pace.noteEvent(at: .seconds(101), delay: .seconds(delay))
            #expect(pace.next <= .seconds(111))
            #expect(pace.next >= .seconds(105))
        }
    }

    @Test mutating func `waits longer after each failure, as long as the host asks, and at most an interval`() {
        pace.noteSent(at: .zero, failed: true, asked: nil)
        #expect(pace.next == .seconds(300))
        pace.noteEvent(at: .seconds(1), delay: .zero)
        #expect(pace.next == .seconds(60))
        pace.noteSent(at: .seconds(60), failed: true, asked: .seconds(600))
        pace.noteEvent(at: .seconds(61), delay: .zero)
        #expect(pace.next == .seconds(660))
        for _ in 0..<20 { pace.noteSent(at: .seconds(1000), failed: true, asked: nil) }
        #expect(pace.next == .seconds(1900))
        pace.noteSent(at: .seconds(1900), failed: false, asked: nil)
        #expect(pace.next == .seconds(2800))
    }

    @Test func `never plans checks more often than every 5 minutes`() {
        #expect(RosterPace.interval(ofChecks: .seconds(10)) == .seconds(300))
        #expect(RosterPace.interval(ofChecks: .seconds(900)) == .seconds(900))
    }
}
