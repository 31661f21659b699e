import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

struct StoreEventsTests {
    private let time = Timestamp(clamping: 1_700_000_000)

    private func claim(_ version: String, _ token: String) throws -> LaunchClaim {
        try LaunchClaim(Sample.name(version), LaunchToken(text: token))
    }

    /// Returns the events of changes that were written at once.
    private func told(_ ledger: inout Ledger, _ changes: LedgerChange...) throws -> [String] {
        let trees = StoredTrees(
            path: "/store", names: Set(try ["1.0.0", "1.1.0"].map { StoreLayout.tree(try Sample.version($0)) }))
        guard case .accepted(let next) = ledger.applying(changes, in: trees) else {
            Issue.record("refused: \(changes)")
            return []
        }
        defer { ledger = next }
        return StoreEvent.between(ledger, and: next).map {
            "\($0.kind)" + ($0.name.map { " \($0)" } ?? "") + ($0.kind == .launched ? " \($0.detail ?? "")" : "")
        }
    }

    @Test func `returns no events between equal ledgers`() throws {
        var ledger = Ledger()
        _ = try told(&ledger, .installed(try Sample.entry("1.0.0")), .selected(shell: nil))
        #expect(StoreEvent.between(ledger, and: ledger) == [])
    }

    @Test func `returns causes before effects`() throws {
        var ledger = Ledger()
        let shell: SemanticVersion = try Sample.version("1.0.0")
        #expect(
            try told(&ledger, .installed(try Sample.entry("1.0.0")), .selected(shell: nil))
                == ["installed v1.0.0", "selected v1.0.0"])
        let first = try claim("1.0.0", "a")
        #expect(try told(&ledger, .launched(first, shell: shell, at: time)) == ["launched v1.0.0 trial"])
        #expect(try told(&ledger, .confirmed(first, at: time)) == ["confirmed v1.0.0"])
        #expect(
            try told(&ledger, .installed(try Sample.entry("1.1.0")), .selected(shell: nil))
                == ["installed v1.1.0", "selected v1.1.0"])
        let second = try claim("1.1.0", "b")
        // Two changes between two polls.
        #expect(
            try told(
                &ledger, .launched(second, shell: shell, at: time),
                .failed(second, StartFailure(.reported, detail: "white", at: time)))
                == ["launched v1.1.0 trial", "failed v1.1.0", "selected v1.0.0"])
        // The next start detects that a shell ended without a verdict.
        #expect(
            try told(
                &ledger, .selected(shell: shell), .launched(try claim("1.1.0", "c"), shell: shell, at: time))
                == ["launched v1.1.0 trial"])
        #expect(
            try told(
                &ledger, .started(seed: nil, facts: nil, at: time), .launched(first, shell: shell, at: time))
                == ["failed v1.1.0", "blocked v1.1.0", "launched v1.0.0 "])
        #expect(try told(&ledger, .unblocked(try Sample.version("1.1.0"))).first == "unblocked v1.1.0")
        #expect(try told(&ledger, .lost(try Sample.version("1.1.0"))).first == "removed v1.1.0")
    }
}
