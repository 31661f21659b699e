import Testing

@testable import ClientShell

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
