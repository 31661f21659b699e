import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

struct ReportRuleTests {
    private let time = Timestamp(clamping: 1_700_000_000)

    private func claim(_ version: String, _ token: String) throws -> LaunchClaim {
        try LaunchClaim(Sample.name(version), LaunchToken(text: token))
    }

    /// A ledger to which changes happen, as the door writes them.
    private final class Store {
        var ledger = Ledger()
        private var drawn = 0

        init(reports: Bool = true) throws { if reports { _ = try facts(.reporting(true)) } }

        /// The facts that `changes`, written at once, add to the queue.
        func facts(_ changes: LedgerChange...) throws -> [String] {
            let trees = StoredTrees(
                path: "/store",
                names: Set(try ["1.0.0", "1.1.0", "1.2.0"].map { StoreLayout.tree(try Sample.version($0)) }))
            let before = ledger.reports?.waiting ?? []
            guard case .accepted(let next) = ledger.applying(changes, in: trees) else {
                Issue.record("refused: \(changes)")
                return []
            }
            ledger = next.noting(since: ledger) {
                drawn += 1
                return String(repeating: "0", count: 32 - "\(drawn)".count) + "\(drawn)"
            }
            return (ledger.reports?.waiting ?? []).filter { !before.contains($0) }.map { report in
                ([report.fact.rawValue, report.version.description]
                    + [report.code?.rawValue, report.previous.map { "from \($0)" }].compactMap(\.self))
                    .joined(separator: " ")
            }
        }
    }

    private func begun() throws -> Store {
        let store = try Store()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        #expect(
            try store.facts(.installed(try Sample.entry("1.0.0")), .selected(shell: nil)) == ["installed 1.0.0"])
        let first = try claim("1.0.0", "a")
        #expect(try store.facts(.launched(first, shell: shell, at: time)) == ["started 1.0.0"])
        #expect(try store.facts(.confirmed(first, at: time)) == ["confirmed 1.0.0"])
        #expect(
            try store.facts(.installed(try Sample.entry("1.1.0")), .selected(shell: nil))
                == ["installed 1.1.0 from 1.0.0"])
        return store
    }

    @Test func `a version is told from its installation to its confirmation, each fact once`() throws {
        let store = try begun()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let second = try claim("1.1.0", "b")
        #expect(
            try store.facts(.launched(second, shell: shell, at: time), .confirmed(second, at: time))
                == ["started 1.1.0 from 1.0.0", "confirmed 1.1.0"])
        #expect(try store.facts(.launched(try claim("1.1.0", "c"), shell: shell, at: time)) == [])
        #expect(try store.facts(.lost(try Sample.version("1.1.0"))) == [])
        #expect(try store.facts(.installed(try Sample.entry("1.1.0")), .selected(shell: nil)) == [])
    }

    @Test func `a version that fails is told once, however often it fails, and its block as well`() throws {
        let store = try begun()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let second = try claim("1.1.0", "b")
        let failure = StartFailure(.notConfirmed, detail: "private words", at: time)
        #expect(
            try store.facts(.launched(second, shell: shell, at: time), .failed(second, failure))
                == [
                    "started 1.1.0 from 1.0.0", "failed 1.1.0 notConfirmed", "rolledBack 1.1.0 notConfirmed from 1.0.0",
                ])
        let third = try claim("1.1.0", "c")
        #expect(
            try store.facts(
                .launched(try claim("1.0.0", "d"), shell: shell, at: time), .selected(shell: nil),
                .launched(third, shell: shell, at: time), .failed(third, failure)) == ["blocked 1.1.0 failedStarts"])
        #expect(store.ledger.reports?.waiting.contains { "\($0)".contains("private") } == false)
    }

    @Test func `a version that works at its second start is told so`() throws {
        let store = try begun()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let second = try claim("1.1.0", "b")
        _ = try store.facts(
            .launched(second, shell: shell, at: time),
            .failed(second, StartFailure(.interrupted, detail: "", at: time)))
        let third = try claim("1.1.0", "c")
        #expect(
            try store.facts(
                .launched(try claim("1.0.0", "d"), shell: shell, at: time), .selected(shell: nil),
                .launched(third, shell: shell, at: time), .confirmed(third, at: time)) == [
                    "confirmed 1.1.0 afterFailure"
                ])
    }

    @Test func `a rollback by hand is told as one`() throws {
        let store = try begun()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let second = try claim("1.1.0", "b")
        _ = try store.facts(.launched(second, shell: shell, at: time), .confirmed(second, at: time))
        #expect(
            try store.facts(.rolledBack(to: nil, at: time))
                == ["blocked 1.1.0 byHand", "rolledBack 1.1.0 byHand from 1.0.0"])
    }

    @Test func `a device that does not report notes nothing, and forgets what it noted`() throws {
        let store = try begun()
        #expect(store.ledger.reports?.waiting.count == 4)
        #expect(try store.facts(.reporting(false)) == [])
        #expect(store.ledger.reports == nil)
        #expect(try store.facts(.installed(try Sample.entry("1.2.0"))) == [])
        #expect(store.ledger.reports == nil)
    }

    @Test func `what a receiver has waits no more, and is not noted again`() throws {
        let store = try begun()
        let ids = try #require(store.ledger.reports?.waiting.map(\.id))
        _ = try store.facts(.reported(ids: Array(ids.prefix(3)), dropped: 0))
        #expect(store.ledger.reports?.waiting.map(\.id) == Array(ids.suffix(1)))
        #expect(try store.facts(.reporting(true), .installed(try Sample.entry("1.0.0"))) == [])
    }

    @Test func `of too many the oldest ones go, and are counted`() throws {
        var queue = ReportQueue()
        for number in 0..<100 {
            queue.note(
                DeviceReport(
                    id: DeviceReport.randomID(), fact: .installed, version: try Sample.version("1.0.\(number)"),
                    channel: nil))
        }
        #expect(queue.waiting.count == ReportMessage.maximumReports)
        #expect(queue.dropped == 36)
        #expect(queue.waiting.first?.version.description == "1.0.36")
        queue.settle(queue.waiting.map(\.id), dropped: 30)
        #expect(queue.waiting.isEmpty)
        #expect(queue.dropped == 6)
    }

    @Test func `the ledger keeps the queue`() throws {
        let store = try begun()
        var object = store.ledger.object
        let queue = try ReportQueue(MemberReader(try #require(object["reports"]), of: "reports"))
        #expect(queue == store.ledger.reports)
        object["reports"] = .object(["waiting": .array([]), "dropped": .integer(-1), "told": .array([])])
        #expect(throws: MemberReader.Refusal.self) {
            try ReportQueue(MemberReader(try #require(object["reports"]), of: "reports"))
        }
    }

    @Test func `ids are 32 hex digits, never the same`() {
        let ids = (0..<1000).map { _ in DeviceReport.randomID() }
        #expect(Set(ids).count == ids.count)
        #expect(ids.allSatisfy { $0.utf8.count == 32 && $0.allSatisfy(\.isHexDigit) })
    }
}
