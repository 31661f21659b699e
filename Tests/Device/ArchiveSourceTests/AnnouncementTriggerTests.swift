import Testing

@testable import ArchiveSource

@Suite struct AnnouncementTriggerTests {
    /// A step of a scenario. `check` is the expected result of `decide` for a known sequence.
    enum Step: Sendable {
        case connect
        case receive(Int)
        case due(Duration?)
        case check(Int?, known: Int?)
        case rest(at: Duration)
        case repeatCheck
    }

    static let rows: [(String, [Step])] = [
        ("no announcement", [.connect, .due(nil), .check(nil, known: 1)]),
        ("a new document", [.connect, .receive(17), .due(.zero), .check(17, known: 16), .rest(at: .zero), .due(nil)]),
        ("the first document of a device", [.connect, .receive(1), .check(1, known: nil)]),
        ("the known document", [.connect, .receive(17), .due(.zero), .check(nil, known: 17), .due(nil)]),
        ("a lower sequence after a restored feed", [.connect, .receive(3), .check(3, known: 17)]),
        (
            "the same sequence twice",
            [.connect, .receive(17), .check(17, known: 16), .rest(at: .zero), .receive(17), .due(nil)]
        ),
        (
            "several announcements lead to one check for the last",
            [.connect, .receive(17), .receive(18), .receive(19), .check(19, known: 16)]
        ),
        (
            "an announcement that the previous check already covered",
            [.connect, .receive(17), .check(17, known: 16), .receive(18), .rest(at: .zero), .check(nil, known: 18)]
        ),
        (
            "the next announcement waits a second",
            [
                .connect, .receive(17), .check(17, known: 16), .rest(at: .seconds(5)), .receive(18), .due(.seconds(6)),
                .check(18, known: 17),
            ]
        ),
        (
            "a check without effect is repeated once, after the next connection",
            [
                .connect, .receive(17), .check(17, known: 16), .rest(at: .zero), .receive(17), .due(nil), .connect,
                .receive(17),
                .check(17, known: 16), .rest(at: .seconds(2)), .connect, .receive(17), .check(nil, known: 16),
            ]
        ),
        (
            "a check without effect is repeated once, after caches expired",
            [
                .connect, .receive(17), .check(17, known: 16), .rest(at: .zero), .repeatCheck, .check(17, known: 16),
                .rest(at: .seconds(60)), .repeatCheck, .check(nil, known: 16), .connect, .receive(17),
                .check(nil, known: 16),
            ]
        ),
        (
            "a successful check is not repeated",
            [.connect, .receive(17), .check(17, known: 16), .rest(at: .zero), .repeatCheck, .check(nil, known: 17)]
        ),
        ("no check is repeated without an announcement", [.repeatCheck, .due(nil)]),
        (
            "a check is repeated after the device accepted another document",
            [
                .connect, .receive(17), .check(17, known: 15), .rest(at: .zero), .connect, .receive(17),
                .check(17, known: 15),
                .rest(at: .zero), .connect, .receive(17), .check(17, known: 16),
            ]
        ),
        (
            "the pause doubles for a host whose announcements have no effect",
            [
                .connect, .receive(1), .check(1, known: 9), .rest(at: .zero), .receive(2), .due(.seconds(1)),
                .check(2, known: 9), .rest(at: .seconds(10)), .receive(3), .due(.seconds(12)), .check(3, known: 9),
                .rest(at: .seconds(20)), .receive(4), .due(.seconds(24)), .check(4, known: 10), .rest(at: .seconds(30)),
                .receive(5), .due(.seconds(31)),
            ]
        ),
    ]

    @Test(arguments: rows.indices)
    func `checks after new announcements at a limited rate`(row: Int) {
        let (name, steps) = Self.rows[row]
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for (index, step) in steps.enumerated() {
            let place: Comment = "\(name), step \(index)"
            switch step {
            case .connect: trigger.connected()
            case .receive(let sequence): trigger.receive(sequence)
            case .due(let due): #expect(trigger.due == due, place)
            case .check(let sequence, let known): #expect(trigger.decide(known: known) == sequence, place)
            case .rest(let now): trigger.rest(at: now)
            case .repeatCheck: trigger.repeatCheck()
            }
        }
    }

    @Test func `keeps the pause after an announcement of the known sequence`() {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for (round, pause) in [1, 2, 4, 8].enumerated() {
            trigger.receive(100 + round)
            #expect(trigger.decide(known: 17) == 100 + round)
            trigger.rest(at: .zero)
            trigger.receive(17)
            #expect(trigger.due == .seconds(pause))
            #expect(trigger.decide(known: 17) == nil)
        }
    }

    @Test func `limits the pause between checks to five minutes`() {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for sequence in 1...2000 {
            trigger.receive(sequence)
            #expect(trigger.decide(known: nil) == sequence)
            trigger.rest(at: .zero)
        }
        trigger.receive(2001)
        #expect(trigger.due == .seconds(300))
    }
}
