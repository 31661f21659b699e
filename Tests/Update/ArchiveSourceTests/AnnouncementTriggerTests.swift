import Testing

@testable import ArchiveSource

@Suite struct `What a host announces` {
    /// What happens, one after the other; `check` is what `decide` is to give with this known sequence.
    enum Step: Sendable {
        case connect
        case hear(Int)
        case due(Duration?)
        case check(Int?, known: Int?)
        case rest(at: Duration)
        case repeatCheck
    }

    static let rows: [(String, [Step])] = [
        ("nothing heard", [.connect, .due(nil), .check(nil, known: 1)]),
        ("a new document", [.connect, .hear(17), .due(.zero), .check(17, known: 16), .rest(at: .zero), .due(nil)]),
        ("the first document of a device", [.connect, .hear(1), .check(1, known: nil)]),
        ("what the device has", [.connect, .hear(17), .due(.zero), .check(nil, known: 17), .due(nil)]),
        ("a lower one: the feed was put back", [.connect, .hear(3), .check(3, known: 17)]),
        ("the same twice", [.connect, .hear(17), .check(17, known: 16), .rest(at: .zero), .hear(17), .due(nil)]),
        ("many at once are one, the last", [.connect, .hear(17), .hear(18), .hear(19), .check(19, known: 16)]),
        (
            "one that the check before it brought already",
            [.connect, .hear(17), .check(17, known: 16), .hear(18), .rest(at: .zero), .check(nil, known: 18)]
        ),
        (
            "the next one waits a second",
            [
                .connect, .hear(17), .check(17, known: 16), .rest(at: .seconds(5)), .hear(18), .due(.seconds(6)),
                .check(18, known: 17),
            ]
        ),
        (
            "one that a check did not bring is tried again with the next connection, and then no more",
            [
                .connect, .hear(17), .check(17, known: 16), .rest(at: .zero), .hear(17), .due(nil), .connect, .hear(17),
                .check(17, known: 16), .rest(at: .seconds(2)), .connect, .hear(17), .check(nil, known: 16),
            ]
        ),
        (
            "one that a check did not bring is tried again when caches have had their time, and then no more",
            [
                .connect, .hear(17), .check(17, known: 16), .rest(at: .zero), .repeatCheck, .check(17, known: 16),
                .rest(at: .seconds(60)), .repeatCheck, .check(nil, known: 16), .connect, .hear(17),
                .check(nil, known: 16),
            ]
        ),
        (
            "one that a check did bring is not tried again",
            [.connect, .hear(17), .check(17, known: 16), .rest(at: .zero), .repeatCheck, .check(nil, known: 17)]
        ),
        ("nothing is tried again where nothing was heard", [.repeatCheck, .due(nil)]),
        (
            "it is tried again where the device has learnt something since",
            [
                .connect, .hear(17), .check(17, known: 15), .rest(at: .zero), .connect, .hear(17),
                .check(17, known: 15),
                .rest(at: .zero), .connect, .hear(17), .check(17, known: 16),
            ]
        ),
        (
            "a host whose announcements lead nowhere is listened to less and less",
            [
                .connect, .hear(1), .check(1, known: 9), .rest(at: .zero), .hear(2), .due(.seconds(1)),
                .check(2, known: 9), .rest(at: .seconds(10)), .hear(3), .due(.seconds(12)), .check(3, known: 9),
                .rest(at: .seconds(20)), .hear(4), .due(.seconds(24)), .check(4, known: 10), .rest(at: .seconds(30)),
                .hear(5), .due(.seconds(31)),
            ]
        ),
    ]

    @Test(arguments: rows.indices)
    func `makes a device look, seldom`(row: Int) {
        let (name, steps) = Self.rows[row]
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for (index, step) in steps.enumerated() {
            let place: Comment = "\(name), step \(index)"
            switch step {
            case .connect: trigger.connected()
            case .hear(let sequence): trigger.hear(sequence)
            case .due(let due): #expect(trigger.due == due, place)
            case .check(let sequence, let known): #expect(trigger.decide(known: known) == sequence, place)
            case .rest(let now): trigger.rest(at: now)
            case .repeatCheck: trigger.repeatCheck()
            }
        }
    }

    @Test func `earns no shorter pause by what is known already`() {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for (round, pause) in [1, 2, 4, 8].enumerated() {
            trigger.hear(100 + round)
            #expect(trigger.decide(known: 17) == 100 + round)
            trigger.rest(at: .zero)
            trigger.hear(17)
            #expect(trigger.due == .seconds(pause))
            #expect(trigger.decide(known: 17) == nil)
        }
    }

    @Test func `never makes it wait longer than five minutes`() {
        var trigger = AnnouncementTrigger(pace: AnnouncementTrigger.Pace())
        for sequence in 1...2000 {
            trigger.hear(sequence)
            #expect(trigger.decide(known: nil) == sequence)
            trigger.rest(at: .zero)
        }
        trigger.hear(2001)
        #expect(trigger.due == .seconds(300))
    }
}
