import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

struct ReportRuleTests {
    private let time = Timestamp(clamping: 1_700_000_000)

    private func claim(_ version: String, _ token: String) throws -> LaunchClaim {
        try LaunchClaim(Sample.name(version), LaunchToken(text: token))
    }

    /// A ledger that is changed as `LedgerKeeper` changes it.
    private final class Store {
        var ledger = Ledger()
        private var drawn = 0

        init(reports: Bool = true) throws { if reports { _ = try facts(.reporting(true)) } }

        /// Applies `changes` at once, and returns the facts that they add to the queue.
        func facts(_ changes: LedgerChange...) throws -> [String] {
            let trees = StoredTrees(
                path: "/store",
                names: Set(try ["1.0.0", "1.1.0", "1.2.0"].map { StoreLayout.tree(try Sample.version($0)) }))
            let before = ledger.reports?.waiting ?? []
            guard case .accepted(let next) = ledger.applying(changes, in: trees) else {
                Issue.record("refused: \(changes)")
                return []
            }
            ledger = next.recordingReports(since: ledger) {
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

    @Test func `reports each fact of a version once, from its installation to its confirmation`() throws {
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

    @Test func `reports the first failed start of a version and its block, without private text`() throws {
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

    @Test func `marks the confirmation of a version that failed before`() throws {
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

    @Test func `reports a rollback by hand`() throws {
        let store = try begun()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let second = try claim("1.1.0", "b")
        _ = try store.facts(.launched(second, shell: shell, at: time), .confirmed(second, at: time))
        #expect(
            try store.facts(.rolledBack(to: nil, at: time))
                == ["blocked 1.1.0 byHand", "rolledBack 1.1.0 byHand from 1.0.0"])
    }

    @Test func `records nothing while reporting is off, and deletes the queue`() throws {
        let store = try begun()
        #expect(store.ledger.reports?.waiting.count == 4)
        #expect(try store.facts(.reporting(false)) == [])
        #expect(store.ledger.reports == nil)
        #expect(try store.facts(.installed(try Sample.entry("1.2.0"))) == [])
        #expect(store.ledger.reports == nil)
    }

    @Test func `removes accepted reports from the queue and does not queue them again`() throws {
        let store = try begun()
        let ids = try #require(store.ledger.reports?.waiting.map(\.id))
        _ = try store.facts(.reported(ids: Array(ids.prefix(3)), dropped: 0))
        #expect(store.ledger.reports?.waiting.map(\.id) == Array(ids.suffix(1)))
        #expect(try store.facts(.reporting(true), .installed(try Sample.entry("1.0.0"))) == [])
    }

    @Test func `drops and counts the oldest reports of a full queue`() throws {
        var queue = ReportQueue()
        for number in 0..<100 {
            queue.add(
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

    @Test func `stores the queue in the ledger and refuses a negative count`() throws {
        let store = try begun()
        var object = store.ledger.object
        let queue = try ReportQueue(MemberReader(try #require(object["reports"]), of: "reports"))
        #expect(queue == store.ledger.reports)
        object["reports"] = .object(["waiting": .array([]), "dropped": .integer(-1), "told": .array([])])
        #expect(throws: MemberReader.Refusal.self) {
            try ReportQueue(MemberReader(try #require(object["reports"]), of: "reports"))
        }
    }

    @Test func `creates unique ids of 32 hex digits`() {
        let ids = (0..<1000).map { _ in DeviceReport.randomID() }
        #expect(Set(ids).count == ids.count)
        #expect(ids.allSatisfy { $0.utf8.count == 32 && $0.allSatisfy(\.isHexDigit) })
    }
}
