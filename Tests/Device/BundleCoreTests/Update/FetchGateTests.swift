import BundleDisk
import BundleTesting
import BundleValues
import Synchronization
import Testing

@testable import BundleFormats
@testable import BundleCore

@Suite("FetchGate")
struct FetchGateTests {
    private static let noon = ActivationWindows.LocalTime(day: 2, minute: 720)

    /// A device that shows its seed.
    private static func seeded() throws -> Inventory {
        var ledger = Ledger()
        ledger.seed = try Sample.seed("1")
        return Inventory.empty.with(ledger)
    }

    private static func gate(_ change: (inout FetchPolicy) throws -> Void) rethrows -> FetchGate {
        var gate = FetchGate()
        try change(&gate.policy)
        gate.localTime = { noon }
        return gate
    }

    @Test func `runs a download without conditions at once`() async throws {
        #expect(try await FetchGate().admit(FetchTerms(), load: .archive, bytes: nil) { 7 } == 7)
    }

    @Test func `throws the reason for which a download waits, and does not start it`() async throws {
        let gate = try Self.gate { $0.hours = [try ActivationWindows(parsing: "22:00-05:00")] }
        let pause = try await #require(throws: FetchPause.self) {
            try await gate.admit(FetchTerms(), load: .archive, bytes: 1) { Issue.record("the download started") }
        }
        #expect(pause.wait.reason == .hours)
        #expect(
            try await gate.wait(FetchTerms(FetchPolicy(), isUrgent: true), load: .archive, bytes: 1, in: Self.seeded())
                == nil)
    }

    @Test func `asks whether the link is metered only if a budget applies`() async throws {
        let questions = Mutex(0)
        var gate = FetchGate()
        gate.isMetered = {
            questions.withLock { $0 += 1 }
            return true
        }
        #expect(try await gate.wait(FetchTerms(), load: .archive, bytes: 1, in: Self.seeded()) == nil)
        #expect(try await gate.admit(FetchTerms(), load: .archive, bytes: 1) { 7 } == 7)
        #expect(questions.withLock { $0 } == 0)
        gate.policy.meteredBudget = 10
        #expect(try await gate.admit(FetchTerms(), load: .archive, bytes: 1) { 7 } == 7)
        #expect(try await gate.wait(FetchTerms(), load: .archive, bytes: 11, in: Self.seeded())?.reason == .budget)
        #expect(questions.withLock { $0 } == 2)
    }

    @Test(arguments: [(false, false, false), (true, false, true), (false, true, true)])
    func `holds a download back only on a device with a client`(isSeedGiven: Bool, isSeedStored: Bool, waits: Bool)
        async throws
    {
        var gate = FetchGate(hasSeed: isSeedGiven)
        gate.policy.hours = [try ActivationWindows(parsing: "22:00-05:00")]
        gate.localTime = { Self.noon }
        let inventory = isSeedStored ? try Self.seeded() : .empty
        let wait = await gate.wait(FetchTerms(), load: .archive, bytes: 1, in: inventory)
        #expect((wait != nil) == waits)
    }

    @Test func `cancels a download when its hours end`() async throws {
        var gate = try Self.gate { $0.hours = [try ActivationWindows(parsing: "12:00-13:00")] }
        let time = Mutex(Self.noon)
        let clock = BoxedTime(time: time)
        gate.localTime = { clock.now }
        let pause = try await #require(throws: FetchPause.self) {
            try await gate.admit(FetchTerms(), load: .archive, bytes: 1) {
                clock.now = .init(day: 2, minute: 800)
                try await Task.sleep(for: .seconds(600))
            }
        }
        #expect(pause.wait.minutes == 1440 - 80)
    }

    private final class BoxedTime: Sendable {
        private let time: Mutex<ActivationWindows.LocalTime>

        init(time: consuming Mutex<ActivationWindows.LocalTime>) { self.time = time }

        var now: ActivationWindows.LocalTime {
            get { time.withLock { $0 } }
            set { time.withLock { $0 = newValue } }
        }
    }

    @Test func `keeps the waiting offer and the metered bytes in the ledger`() throws {
        let folder = try TemporaryFolder()
        let directory = try Directory.open(folder.path)
        let time = try Timestamp(parsing: "2026-11-26T00:00:00Z")
        let later = try Timestamp(parsing: "2026-11-27T00:00:00Z")
        let version = ClientVersion.archive(try SemanticVersion(parsing: "1.5.0"))
        let wait = FetchWait(.budget, "no bytes are left")
        var ledger = Ledger()
        for change in [
            LedgerChange.waiting(version, wait, at: time), .waiting(version, wait, at: later), .metered(70, at: time),
            .metered(-20, at: later),
        ] {
            guard case .accepted(let next) = ledger.applying([change], in: StoredTrees(path: "", names: [])) else {
                Issue.record("\(change) was refused")
                continue
            }
            ledger = next
        }
        try LedgerFile.write(ledger, to: directory)
        let read = try #require(try LedgerFile.read(directory))
        let waiting = WaitingOffer(version: version, reason: .budget, detail: wait.detail, since: time)
        #expect(read.waiting == waiting)
        #expect(read.metered == MeteredUse(month: "2026-11", bytes: 50))
        #expect(StoreEvent.between(Ledger(), and: read).map(\.kind) == [.waiting])
        let supplied = read.applying([.supplied(.archive)], in: StoredTrees(path: "", names: []))
        guard case .accepted(let done) = supplied else {
            Issue.record("the change was refused")
            return
        }
        #expect(done.waiting == nil)
        #expect(done.metered == read.metered)
    }
}
