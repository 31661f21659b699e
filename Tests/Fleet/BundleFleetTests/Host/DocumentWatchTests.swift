import Testing

@testable import BundleFleet

/// Tests when a channel file of an upstream is polled, and which sequences are announced.
@Suite("DocumentWatch") struct DocumentWatchTests {
    typealias Answer = DocumentWatch.Answer
    typealias Report = DocumentWatch.Report

    /// A poll: its result, the announcement, the report, and the wait with the largest random backoff.
    struct Poll: Sendable {
        let answer: Answer
        var announced: Int?
        var report: Report?
        var wait = Duration.seconds(1)

        init(_ answer: Answer, announced: Int? = nil, _ report: Report? = nil, wait: Duration = .seconds(1)) {
            self.answer = answer
            self.announced = announced
            self.report = report
            self.wait = wait
        }
    }

    private static func document(_ sequence: Int) -> Answer { .document(sequence: sequence, tag: "\"\(sequence)\"") }
    private static func watched(_ sequence: Int) -> Report { .watched(sequence: sequence, hasTag: true) }
    private static let failure = Answer.failed("refused", retryAfter: nil)

    static let rows: [(String, [Poll])] = [
        (
            "announces each new sequence",
            [
                Poll(document(17), announced: 17, watched(17)), Poll(.unchanged), Poll(.unchanged),
                Poll(document(18), announced: 18), Poll(document(18)), Poll(.unchanged),
            ]
        ),
        (
            "reports an older copy once without announcing it",
            [
                Poll(document(17), announced: 17, watched(17)), Poll(document(16), .older(sequence: 16, than: 17)),
                Poll(.unchanged), Poll(document(16)), Poll(document(17), watched(17)),
                Poll(document(18), announced: 18),
            ]
        ),
        (
            "polls a failed upstream less often, and as before after it recovers",
            [
                Poll(document(17), announced: 17, watched(17)),
                Poll(failure, .failed("refused"), wait: .seconds(2)), Poll(failure, wait: .seconds(4)),
                Poll(failure, wait: .seconds(8)), Poll(failure, wait: .seconds(16)), Poll(failure, wait: .seconds(32)),
                Poll(failure, wait: .seconds(60)), Poll(failure, wait: .seconds(60)),
                Poll(.unchanged, watched(17)), Poll(failure, .failed("refused"), wait: .seconds(2)),
                Poll(document(18), announced: 18, watched(18)),
            ]
        ),
        (
            "waits as long as the server asks, at most an hour",
            [
                Poll(.failed("503", retryAfter: .seconds(90)), .failed("503"), wait: .seconds(92)),
                Poll(.missing(retryAfter: .seconds(7)), .missing, wait: .seconds(11)),
                Poll(.failed("429", retryAfter: .seconds(86400)), .failed("429"), wait: .seconds(248)),
            ]
        ),
        (
            "announces a channel that is created later",
            [
                Poll(.missing(retryAfter: nil), .missing, wait: .seconds(2)),
                Poll(.missing(retryAfter: nil), wait: .seconds(4)), Poll(document(1), announced: 1, watched(1)),
            ]
        ),
        (
            "reports an invalid file once and polls it less often until it is valid",
            [
                Poll(document(17), announced: 17, watched(17)),
                Poll(.unreadable("a page", tag: "\"p\""), .unreadable("a page"), wait: .seconds(2)), Poll(.unchanged),
                Poll(.unreadable("a page", tag: nil), wait: .seconds(2)),
                Poll(.unreadable("a page", tag: nil), wait: .seconds(4)),
                Poll(document(18), announced: 18, watched(18)),
            ]
        ),
        (
            "reports a server without entity tags",
            [
                Poll(.document(sequence: 1, tag: nil), announced: 1, .watched(sequence: 1, hasTag: false)),
                Poll(.document(sequence: 1, tag: nil)), Poll(.document(sequence: 2, tag: nil), announced: 2),
            ]
        ),
    ]

    @Test(arguments: rows.indices)
    func `waits, announces and reports after each poll`(row: Int) {
        let (name, polls) = Self.rows[row]
        var watch = DocumentWatch(newest: nil)
        for (index, poll) in polls.enumerated() {
            let step = watch.handle(poll.answer, took: .zero) { $0.upperBound }
            #expect(step.announced == poll.announced, "\(name), poll \(index)")
            #expect(step.report == poll.report, "\(name), poll \(index)")
            #expect(step.wait == poll.wait, "\(name), poll \(index)")
        }
    }

    @Test func `ends the watch of a channel that never existed`() {
        for (answer, isNothing) in [
            (.missing(retryAfter: nil), true), (.unreadable("a page", tag: nil), true), (Self.failure, false),
            (Self.document(1), false),
        ] as [(Answer, Bool)] {
            var fresh = DocumentWatch(newest: nil)
            for losses in 0..<6 {
                let found = fresh.handle(answer, took: .zero) { $0.upperBound }.found
                #expect(found == (isNothing ? .nothing(isLasting: losses >= 4) : .something))
            }
            var known = DocumentWatch(newest: 17)
            #expect(known.handle(answer, took: .zero) { $0.upperBound }.found == .something)
        }
    }

    @Test func `does not announce the sequence that was announced before`() {
        var watch = DocumentWatch(newest: 17)
        for (sequence, announced) in [(16, nil), (17, nil), (18, 18)] as [(Int, Int?)] {
            let step = watch.handle(Self.document(sequence), took: .zero) { $0.upperBound }
            #expect(step.announced == announced)
        }
    }

    @Test func `subtracts the duration of a slow poll from the wait`() {
        var watch = DocumentWatch(newest: nil)
        let first = watch.handle(Self.document(1), took: .milliseconds(300)) { $0.upperBound }
        #expect(first.wait == .milliseconds(700))
        let second = watch.handle(.unchanged, took: .seconds(5)) { $0.upperBound }
        #expect(second.wait == .zero)
    }

    @Test func `spreads the retries of many relays`() {
        for fraction in [0.5, 0.75, 1] {
            var watch = DocumentWatch(newest: nil)
            let step = watch.handle(Self.failure, took: .zero) { range in
                #expect(range == 0.5...1)
                return fraction
            }
            #expect(step.wait == .seconds(2) * fraction)
            #expect(step.wait >= DocumentWatch.interval)
        }
    }

    @Test func `sends the tag of the latest file, and none for a missing file`() {
        var watch = DocumentWatch(newest: nil)
        func take(_ answer: Answer) -> String? {
            _ = watch.handle(answer, took: .zero) { $0.upperBound }
            return watch.tag
        }
        #expect(take(Self.document(1)) == "\"1\"")
        #expect(take(.unchanged) == "\"1\"")
        #expect(take(Self.failure) == "\"1\"")
        #expect(take(.unreadable("a page", tag: "\"p\"")) == "\"p\"")
        #expect(take(.missing(retryAfter: nil)) == nil)
        #expect(take(.document(sequence: 2, tag: nil)) == nil)
    }
}
