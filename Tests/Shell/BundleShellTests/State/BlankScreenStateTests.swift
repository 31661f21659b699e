import BundleTesting
import BundleValues
import Testing

@testable import BundleCore
@testable import BundleShell

/// Starts that a page confirms while it shows nothing.
@Suite struct BlankScreenStateTests {
    private static let timeout = StateFixture.timeout.duration

    /// Returns a shell that shows client 2 on trial, after client 1 was confirmed.
    private func onTrial(
        reportedFailed: Set<Int> = [], checksHealth: Bool = false, _ blankScreens: BlankScreens = .fail
    ) throws -> (fixture: StateFixture, token: LaunchToken) {
        var fixture = StateFixture(.reported, checksHealth: checksHealth, blankScreens: blankScreens)
        fixture.world.good = [1]
        fixture.world.lastKnownGood = FakeWorld.name(1)
        fixture.install(1, 2)
        fixture.world.reportedFailed = reportedFailed
        fixture.handle(.start)
        let launch = fixture.load(takesNext: true)
        let token = try #require(launch?.token)
        fixture.handle(.page(.show(true, PageReport(load: "a", number: 1)), token))
        return (fixture, token)
    }

    private func failure(_ fixture: StateFixture) -> StartFailure? {
        if case .faulty(let failure)? = fixture.verdicts.first?.verdict { failure } else { nil }
    }

    @Test func `rolls back a client whose page confirms and stays blank`() throws {
        var (fixture, token) = try onTrial()
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.verdicts.isEmpty && fixture.refusal == nil)
        fixture.now = .seconds(3)
        fixture.handle(.page(.confirmBlank, token))
        #expect(failure(fixture)?.cause == .blankScreen)
        #expect(failure(fixture)?.description.contains("was confirmed with a blank screen") == true)
        guard case .rolledBack(let name, _, let reason)? = fixture.reports.first else {
            Issue.record("\(fixture.reports)")
            return
        }
        #expect(name == FakeWorld.name(2) && reason.code == .blankScreen)
    }

    @Test func `confirms a client whose page shows something in time, also after the startup timeout`() throws {
        var (fixture, token) = try onTrial()
        fixture.now = Self.timeout - .milliseconds(1)
        fixture.handle(.page(.confirmEmpty, token))
        fixture.now = Self.timeout + .seconds(3)
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.isEmpty)
        fixture.handle(.page(.confirm, token))
        #expect(fixture.verdicts.map(\.verdict) == [.good] && fixture.reports == [.confirmed(FakeWorld.name(2))])
    }

    @Test(
        arguments: [
            .show(false, PageReport(load: "a", number: 2)), .leave("https://h/", PageReport(load: "a", number: 2)),
            .vanish("a"), .lose("it hangs"),
        ] as [ShellState<FakeWorld>.PageInput])
    func `confirms a client whose empty page is no longer visible`(event: ShellState<FakeWorld>.PageInput) throws {
        var (fixture, token) = try onTrial()
        fixture.handle(.page(.confirmEmpty, token))
        fixture.handle(.page(event, token))
        #expect(fixture.verdicts.map(\.verdict) == [.good])
    }

    @Test func `confirms a client whose empty page reports no result`() throws {
        var (fixture, token) = try onTrial()
        fixture.now = Self.timeout - .seconds(1)
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.wake == Self.timeout + .seconds(5))
        fixture.now = Self.timeout + .seconds(5)
        fixture.handle(.timerFired)
        #expect(fixture.verdicts.map(\.verdict) == [.good])
    }

    @Test func `only the timeout ends a second trial with a blank screen, because any program can report one`() throws {
        for showsLater in [true, false] {
            var (fixture, token) = try onTrial(reportedFailed: [2])
            fixture.handle(.page(.confirmEmpty, token))
            fixture.now = .seconds(3)
            fixture.handle(.page(.confirmBlank, token))
            #expect(fixture.verdicts.isEmpty)
            fixture.handle(.page(.show(false, PageReport(load: "a", number: 2)), token))
            fixture.handle(.page(.show(true, PageReport(load: "a", number: 3)), token))
            #expect(fixture.verdicts.isEmpty && fixture.wake == Self.timeout)
            if showsLater { fixture.handle(.page(.confirm, token)) }
            let verdicts = fixture.verdicts.map(\.verdict)
            fixture.now = Self.timeout
            fixture.handle(.timerFired)
            #expect(showsLater ? verdicts == [.good] : failure(fixture)?.cause == .blankScreen)
        }
    }

    @Test func `a health check follows when the page shows something`() throws {
        var (fixture, token) = try onTrial(checksHealth: true)
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.checked.isEmpty)
        fixture.handle(.page(.confirm, token))
        #expect(fixture.checked == [token] && fixture.verdicts.isEmpty)
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.wake == nil)
    }

    @Test(arguments: [BlankScreens.warn, .allow])
    func `without --blank fail, a blank page is confirmed at once`(rule: BlankScreens) throws {
        var (fixture, token) = try onTrial(rule)
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.verdicts.map(\.verdict) == [.good])
        fixture.handle(.page(.confirmBlank, token))
        let isWarned = fixture.reports.contains(.blank(FakeWorld.name(2), isOver: false))
        #expect(isWarned == (rule == .warn) && fixture.verdicts.allSatisfy { $0.verdict == .good })
    }

    @Test func `a blank screen of a confirmed client is an event, and so is its end`() throws {
        var fixture = StateFixture()
        fixture.runGood(1)
        let token = try #require(fixture.state.launched?.token)
        fixture.handle(.page(.confirmEmpty, token))
        #expect(fixture.reports.isEmpty)
        for _ in 1...2 { fixture.handle(.page(.confirmBlank, token)) }
        #expect(fixture.reports.isEmpty)
        #expect(fixture.state.isBlank && fixture.state.launched?.token == token)
        fixture.handle(.page(.confirm, token))
        #expect(fixture.reports == [.blank(FakeWorld.name(1), isOver: true)])
        fixture.handle(.page(.confirmBlank, token))
        #expect(fixture.reports == [.blank(FakeWorld.name(1), isOver: false)])
    }

    @Test func `a page of another launch reports nothing about the screen`() throws {
        var (fixture, _) = try onTrial()
        for event in [.confirmEmpty, .confirmBlank] as [ShellState<FakeWorld>.PageInput] {
            fixture.handle(.page(event, LaunchToken(text: "foreign")))
            #expect(fixture.verdicts.isEmpty && (fixture.refusal as? UpdateFailure)?.code == .versionMismatch)
        }
    }
}
