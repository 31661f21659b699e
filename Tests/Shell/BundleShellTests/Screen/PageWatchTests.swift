import Testing

@testable import BundleShell
@testable import ClientServer

@Suite struct PageWatchTests {
    private static let timeout = Duration.seconds(30)
    private var watch = PageWatch(timeout: timeout)

    @Test func `expects no report before the first one, and none of a hidden page`() {
        var watch = watch
        watch.loads(at: .zero)
        #expect(watch.loss(at: .seconds(1000)) == nil)
        watch.reports("a", isSeen: true, at: .zero)
        watch.reports("a", isSeen: false, at: .seconds(1))
        watch.isSentAway(at: .seconds(2))
        watch.leaves("a", for: "", at: .seconds(3))
        #expect(watch.loss(at: .seconds(1000)) == nil)
    }

    @Test func `reports a browser that loads no page as lost, and extends the time of the next start`() {
        var watch = watch
        watch.starts(at: .zero)
        #expect(watch.loss(at: .seconds(29)) == nil)
        let reason = "the browser was started, and has loaded no page within 30s"
        #expect(watch.loss(at: .seconds(30)) == PageWatch.Loss(reason: reason, isOfPage: false))
        watch.starts(at: .seconds(31))
        #expect(watch.loss(at: .seconds(90)) == nil)
        #expect(watch.loss(at: .seconds(91))?.isOfPage == false)
        watch.starts(at: .seconds(92))
        watch.loads(at: .seconds(93))
        #expect(watch.loss(at: .seconds(123))?.reason == "it was loaded, and has said nothing for 30s")
        watch.starts(at: .seconds(124))
        watch.reports("a", isSeen: true, at: .seconds(125))
        watch.starts(at: .seconds(126))
        #expect(watch.loss(at: .seconds(156))?.reason == reason)
    }

    @Test func `reports a hidden kiosk window as lost, without failing the client`() {
        var watch = PageWatch(timeout: Self.timeout, isKiosk: true)
        watch.reports("a", isSeen: true, at: .zero)
        watch.reports("a", isSeen: false, at: .seconds(1))
        #expect(watch.loss(at: .seconds(30)) == nil)
        let reason = "its window has been out of sight for 30s"
        #expect(watch.loss(at: .seconds(31)) == PageWatch.Loss(reason: reason, isOfPage: false))
        watch.reports("a", isSeen: false, at: .seconds(40))
        watch.reports("b", isSeen: true, at: .seconds(41))
        watch.reports("b", isSeen: true, at: .seconds(60))
        #expect(watch.loss(at: .seconds(89)) == nil)
    }

    @Test func `excludes time for which the process was suspended`() {
        var watch = watch
        watch.reports("a", isSeen: true, at: .zero)
        watch.exclude(.seconds(45))
        #expect(watch.loss(at: .seconds(74)) == nil)
        #expect(watch.loss(at: .seconds(75)) != nil)
    }

    @Test func `reports a silent page as lost once`() {
        var watch = watch
        watch.reports("a", isSeen: true, at: .zero)
        watch.reports("a", isSeen: true, at: .seconds(20))
        #expect(watch.loss(at: .seconds(49)) == nil)
        #expect(watch.loss(at: .seconds(50))?.reason == "it has said nothing for 30s")
        #expect(watch.loss(at: .seconds(90)) == nil)
    }

    @Test func `watches the page that reported last`() {
        var watch = watch
        watch.reports("a", isSeen: true, at: .zero)
        watch.reports("b", isSeen: true, at: .seconds(1))
        watch.reports("a", isSeen: false, at: .seconds(2))
        watch.leaves("a", for: "x", at: .seconds(3))
        #expect(watch.loss(at: .seconds(31))?.reason == "it has said nothing for 30s")
    }

    @Test func `watches every visible page that is connected`() {
        for isConnected in [true, false] {
            var watch = watch
            if isConnected { for name in ["a", "b"] { watch.connects(name, at: .zero) } }
            watch.reports("a", isSeen: true, at: .zero)
            for second in 0..<60 { watch.reports("b", isSeen: true, at: .seconds(second)) }
            #expect((watch.loss(at: .seconds(59)) != nil) == isConnected)
        }
    }

    /// A step of a page, and whether the watch reports a loss at each of the next seconds.
    private enum Step {
        case shown(String, Int), hidden(String, Int), left(String, Int), connected(String), ended(String), closed(
            String)
        case loaded, passed(Int)
    }

    private static let ended = "its connection ended, and no page followed within 4s"

    @Test(
        arguments: [
            ("the process of a visible page ends", [.ended("a")], 4, ended),
            ("a hidden page is discarded", [.hidden("a", 2), .ended("a")], nil, ""),
            (
                "a window closes beside another", [.connected("b"), .shown("b", 1), .hidden("b", 2), .ended("b")], 30,
                "nothing"
            ),
            ("the process of one of two pages ends", [.connected("b"), .shown("b", 1), .ended("b")], 4, ended),
            (
                "the process of one of two pages ends, and the other one reports",
                [.connected("b"), .shown("b", 1), .ended("a"), .shown("b", 2)], 4, ended
            ),
            ("a page connects again", [.ended("a"), .passed(2), .connected("a")], 32, "nothing"),
            ("the server ends the connection", [.closed("a")], 30, "nothing"),
            ("a page reloads", [.left("a", 2), .ended("a"), .loaded, .connected("b"), .shown("b", 1)], 30, "nothing"),
            (
                "a page reloads without a report", [.ended("a"), .loaded, .connected("b"), .shown("b", 1)], 30,
                "nothing"
            ),
            (
                "a page that is replaced sends no report, and its successor leaves",
                [.loaded, .connected("b"), .shown("b", 1), .ended("a"), .left("b", 2)], 30,
                "it left, and no page of this device followed within 30s"
            ),
            ("a page that hangs is replaced", [.loaded, .connected("b"), .shown("b", 1), .ended("a")], nil, "b"),
            (
                "a page returns from the cache",
                [.left("a", 2), .ended("a"), .passed(1), .connected("a"), .shown("a", 3)], 31, "nothing"
            ),
            ("a report overtakes another", [.hidden("a", 5), .shown("a", 4)], nil, ""),
        ] as [(String, [Step], Int?, String)])
    private func `distinguishes a page that ended from one that was closed or replaced`(
        name: String, steps: [Step], loss: Int?, reason: String
    ) {
        var watch = watch
        watch.loads(at: .zero)
        watch.connects("a", at: .zero)
        watch.reports("a", number: 1, isSeen: true, at: .zero)
        var now = Duration.zero
        var expectsReports = false
        for step in [.passed(11)] + steps {
            switch step {
            case .shown(let page, let number): watch.reports(page, number: number, isSeen: true, at: now)
            case .hidden(let page, let number): watch.reports(page, number: number, isSeen: false, at: now)
            case .left(let page, let number): watch.leaves(page, number: number, for: "", at: now)
            case .connected(let page): watch.connects(page, at: now)
            case .ended(let page): watch.disconnects(page, at: now)
            case .closed(let page): watch.disconnects(page, isOurs: true, at: now)
            case .loaded: watch.loads(at: now)
            case .passed(let seconds):
                now += .seconds(seconds)
                watch.reports("a", isSeen: true, at: now)
            }
        }
        expectsReports = reason == "b"
        let begin = Duration.seconds(11)
        for second in 0..<100 {
            let time = begin + .seconds(second)
            if expectsReports { watch.reports("b", isSeen: true, at: time) }
            guard let found = watch.loss(at: time) else { continue }
            #expect(second == loss, "\(name): \(found.reason)")
            #expect(reason == "nothing" ? found.reason == "it has said nothing for 30s" : found.reason == reason)
            return
        }
        #expect(loss == nil, "\(name)")
    }

    @Test func `waits for the page that follows an unload, and longer after a visit to another site`() {
        for (place, time) in [("", 30), ("https://h/", 300)] {
            var watch = watch
            watch.reports("a", isSeen: true, at: .zero)
            watch.leaves("a", for: place, at: .seconds(1))
            // Reported during the unload, and received late.
            watch.reports("a", isSeen: false, at: .seconds(1))
            #expect(watch.loss(at: .seconds(time)) == nil)
            let reason = watch.loss(at: .seconds(time + 1))?.reason ?? ""
            #expect(reason.hasPrefix("it left\(place.isEmpty ? "" : " for https://h/"), and no page of this device"))
        }
    }

    @Test func `does not wait for a page in the background after an unload`() {
        var watch = watch
        watch.reports("a", isSeen: true, at: .zero)
        watch.leaves("a", for: "", at: .seconds(1))
        watch.loads(at: .seconds(2))
        watch.reports("a", isSeen: false, at: .seconds(3))
        #expect(watch.loss(at: .seconds(32))?.reason == "it was loaded, and has said nothing for 30s")
        watch.loads(at: .seconds(40))
        watch.reports("b", isSeen: false, at: .seconds(41))
        #expect(watch.loss(at: .seconds(1000)) == nil)
    }

    @Test func `waits briefly for a reload, and longer for a browser start`() {
        var watch = watch
        watch.isSentAway(at: .zero)
        #expect(watch.loss(at: .seconds(19)) == nil)
        #expect(watch.loss(at: .seconds(20))?.reason == "it did not load itself again within 20s")
        watch.isSentAway(at: .seconds(21))
        #expect(watch.loss(at: .seconds(60)) == nil)
        watch.loads(at: .seconds(60))
        #expect(watch.loss(at: .seconds(90))?.reason == "it was loaded, and has said nothing for 30s")
    }
}

@Suite struct CheckPaceTests {
    @Test func `extends the pause of a page in a loop, and resets it after a while`() {
        var pace = CheckPace()
        var reading = Duration.zero
        var pauses: [Duration] = []
        for _ in 0..<8 {
            pauses.append(pace.pause(at: reading))
            reading += pauses.last ?? .zero
        }
        #expect(pauses == [1, 2, 4, 8, 10, 10, 10, 10].map { .seconds($0) })
        #expect(pace.pause(at: reading + .seconds(9)) == .seconds(10))
        #expect(pace.pause(at: reading + .seconds(30)) == .seconds(1))
    }
}
