import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct LedgerChangeTests {
    /// All changes of a small store, and its disk.
    private struct World {
        static let versions = ["1.0.0", "1.1.0", "1.2.0", "meteor-a", "meteor-b"]

        let names: [ClientName]
        let claims: [LaunchClaim]
        let trees: StoredTrees
        let changes: [LedgerChange]

        init() throws {
            let versions: [ClientVersion] = try Self.versions.map { try Sample.version($0) }
            names = [.embedded] + versions.map { .installed($0) }
            claims = try names.flatMap { name in
                try ["a", "b"].map { try LaunchClaim(name, LaunchToken(text: $0)) }
            }
            trees = StoredTrees(path: "/store", names: Set(versions.map(StoreLayout.tree)))
            let time = Timestamp(clamping: 1_700_000_000)
            let shell: SemanticVersion = try Sample.version("1.0.0")
            let entries = try Self.versions.map { try Sample.entry($0, seed: $0 == "meteor-b" ? "1" : nil) }
            let seeds = try [nil, "1", "2"].map { try $0.map(Sample.seed) }
            var changes: [LedgerChange] = [.bound(appId: "a"), .bound(appId: "b")]
            changes += [.recorded(try Self.news(recalling: ["1.2.0"])), .recorded(try Self.news(recalling: []))]
            changes += ["archive", "meteor,archive"].compactMap { text in
                SourceOrder(text.split(separator: ",").map(String.init)).map { .ordered($0) }
            }
            changes += names.filter { $0.version?.source != .archive }.map { .offered($0) }
            changes += entries.map { .installed($0) } + entries.map { .adopted($0, isNewest: false) }
            changes += [.selected(shell: nil), .selected(shell: shell), .selected(shell: try Sample.version("0.9.0"))]
            changes += versions.flatMap { [.removed($0), .lost($0), .unblocked($0)] }
            changes += seeds.map { .started(seed: $0, facts: nil, at: time) }
            changes += claims.flatMap { claim -> [LedgerChange] in
                let failure = StartFailure(.reported, detail: "white", at: time)
                return [
                    .launched(claim, shell: shell, at: time), .confirmed(claim, at: time), .failed(claim, failure),
                    .abandoned(claim),
                ]
            }
            changes += ["1.2.0", "meteor-a"].compactMap { try? Sample.version($0) }.map {
                .missed($0, UpdateFailure(.httpStatus, subject: "x", "503"), at: time)
            }
            changes += [.supplied(.archive), .supplied(.meteor)]
            changes += names.map { .rolledBack(to: $0, at: time) } + [.rolledBack(to: nil, at: time)]
            self.changes = changes
        }

        private static func news(recalling versions: [String]) throws -> FeedUpdate {
            var after = FeedMemory()
            after.follow(
                FeedMemory.ChannelMemory(
                    name: versions.isEmpty ? "beta" : "stable", sequence: 2, payloadSha256: try .of([]), signers: [],
                    issuedAt: Timestamp(clamping: 1), expires: Timestamp(clamping: 2),
                    recalled: try versions.map {
                        FeedMemory.Recall(version: try Sample.version($0), reason: "it leaks")
                    }, minimumVersion: nil, leftOut: []))
            return FeedUpdate(before: FeedMemory(), after: after)
        }
    }

    /// Returns the invariants that `ledger` breaks.
    private static func contradiction(_ ledger: Ledger) -> String? {
        for version in ledger.mentioned where ledger.entry(version) == nil {
            return "\(version) is named, not installed"
        }
        if ledger.previous == ledger.current { return "current is previous" }
        if ledger.pending == ledger.current { return "current is pending" }
        for name in [ledger.pending, ledger.lastKnownGood] {
            if let version = name?.version, ledger.block(on: version) != nil {
                return "\(version) is blocked, and next"
            }
        }
        let lists = [ledger.entries.map(\.version), ledger.blocks.map(\.version), ledger.records.map(\.version)]
        for list in lists where Set(list).count != list.count { return "a version is there twice" }
        return nil
    }

    /// Returns whether `refusal` is a valid reason to refuse `change`.
    private static func isReason(_ refusal: LedgerRefusal, for change: LedgerChange) -> Bool {
        switch (change, refusal) {
        case (.bound, .boundTo), (.removed, .hasRole), (.launched, .notInstalled), (.launched, .recalled),
            (.confirmed, .otherLaunch), (.confirmed, .failedBefore), (.failed, .otherLaunch),
            (.failed, .confirmedBefore), (.abandoned, .otherLaunch), (.rolledBack, .noWayBack):
            true
        default: false
        }
    }

    private struct Broken: Error, CustomStringConvertible { let description: String }

    private static func isRepeatable(_ change: LedgerChange) -> Bool {
        switch change {
        case .rolledBack(to: nil, of: _, at: _), .missed: false
        default: true
        }
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `applies every change without a contradiction, or refuses it for a valid reason`(
        seed: UInt64
    ) throws {
        let world = try World()
        let folder = try TemporaryDirectory.ofTests()
        var generator = SeededGenerator(seed: seed)
        var ledger = Ledger()
        for step in 0..<40 {
            for change in world.changes {
                switch ledger.applying([change], in: world.trees) {
                case .refused(let refusal):
                    // `#expect` would format its operands 100,000 times.
                    if !Self.isReason(refusal, for: change) {
                        throw Broken(description: "\(step), \(change): \(refusal)")
                    }
                case .accepted(let next):
                    if let problem = Self.contradiction(next) {
                        throw Broken(description: "\(step), \(change): \(problem)")
                    }
                    if Self.isRepeatable(change), next.applying([change], in: world.trees) != .accepted(next) {
                        throw Broken(description: "\(step), \(change), twice is not once")
                    }
                }
            }
            if let change = world.changes.randomElement(using: &generator),
                case .accepted(let next) = ledger.applying([change], in: world.trees)
            {
                ledger = next
            }
        }
        try LedgerFile.write(ledger, to: folder.directory)
        #expect(try LedgerFile.read(folder.directory) == ledger)
    }

    // MARK: Single changes

    private static let token = LaunchToken(text: "a")

    /// Returns a ledger with 1.0.0 and 1.1.0 after `changes`.
    private static func ledger(_ changes: [LedgerChange] = []) throws -> Ledger {
        let installed: [LedgerChange] = try ["1.0.0", "1.1.0"].map { .installed(try Sample.entry($0)) }
        let outcome = Ledger().applying(installed + changes, in: try World().trees)
        guard case .accepted(let ledger) = outcome else { throw UpdateFailure(.internal, subject: "", "\(outcome)") }
        return ledger
    }

    private static func launched(_ name: String) throws -> [LedgerChange] {
        [
            .launched(
                try LaunchClaim(try Sample.name(name), token), shell: try Sample.version("1.0.0"),
                at: Timestamp(clamping: 1))
        ]
    }

    /// Returns the code with which `change` is refused; nil if it is accepted.
    private static func code(_ change: LedgerChange, to ledger: Ledger) throws -> FailureCode? {
        switch ledger.applying([change], in: try World().trees) {
        case .accepted: nil
        case .refused(let refusal): refusal.failure.code
        }
    }

    @Test func `binds a store to one application`() throws {
        let ledger = try Self.ledger([.bound(appId: "a")])
        #expect(try Self.code(.bound(appId: "a"), to: ledger) == nil)
        #expect(try Self.code(.bound(appId: "b"), to: ledger) == .appMismatch)
    }

    @Test func `refuses to remove a client with a role`() throws {
        let ledger = try Self.ledger([.selected(shell: nil)])
        #expect(try Self.code(.removed(try Sample.version("1.1.0")), to: ledger) == .usage)
        #expect(try Self.code(.removed(try Sample.version("1.0.0")), to: ledger) == nil)
        #expect(try Self.code(.lost(try Sample.version("1.1.0")), to: ledger) == nil)
    }

    @Test func `refuses to launch a client that is missing, blocked or recalled`() throws {
        let launch = try #require(try Self.launched("1.1.0").first)
        #expect(try Self.code(launch, to: Self.ledger()) == nil)
        #expect(try Self.code(launch, to: Self.ledger([.lost(try Sample.version("1.1.0"))])) == .usage)
        let back = LedgerChange.rolledBack(to: try Sample.name("1.0.0"), at: Timestamp(clamping: 1))
        #expect(try Self.code(launch, to: Self.ledger([back])) == .versionBlocked)
    }

    @Test func `accepts one verdict, with the token of the last launch`() throws {
        let claim = try LaunchClaim(try Sample.name("1.1.0"), Self.token)
        let other = try LaunchClaim(try Sample.name("1.1.0"), LaunchToken(text: "b"))
        let time = Timestamp(clamping: 2)
        let failed = LedgerChange.failed(claim, StartFailure(.reported, detail: "", at: time))
        let ledger = try Self.ledger(Self.launched("1.1.0"))
        #expect(try Self.code(.confirmed(other, at: time), to: ledger) == .versionMismatch)
        #expect(try Self.code(.abandoned(other), to: ledger) == .versionMismatch)
        #expect(try Self.code(.confirmed(claim, at: time), to: Ledger()) == .versionMismatch)
        let good = try Self.ledger(Self.launched("1.1.0") + [.confirmed(claim, at: time)])
        #expect(try Self.code(failed, to: good) == .versionMismatch)
        let bad = try Self.ledger(Self.launched("1.1.0") + [failed])
        #expect(try Self.code(.confirmed(claim, at: time), to: bad) == .healthFailed)
    }

    @Test func `an ended shell fails a client that awaits its page only after the page's first report`()
        throws
    {
        let claim = try LaunchClaim(try Sample.name("1.1.0"), Self.token)
        let time = Timestamp(clamping: 2)
        let shell: SemanticVersion = try Sample.version("1.0.0")
        let version: ClientVersion = try Sample.version("1.1.0")
        let waiting = LedgerChange.launched(claim, shell: shell, at: time, awaitsPage: true)
        let killed = LedgerChange.started(seed: nil, facts: nil, at: time)
        let ledger = try Self.ledger([waiting, killed, waiting, killed, waiting, killed])
        #expect(ledger.standing(of: version) == .staged)
        for changes in [[waiting, .pageReported(claim), killed], try Self.launched("1.1.0") + [killed]] {
            guard case .failed(let failure) = try Self.ledger(changes).standing(of: version) else {
                Issue.record("\(changes)")
                return
            }
            #expect(failure.cause == .interrupted)
        }
        let other = try LaunchClaim(try Sample.name("1.1.0"), LaunchToken(text: "b"))
        #expect(try Self.code(.pageReported(other), to: try Self.ledger([waiting])) == .versionMismatch)
        #expect(try Self.ledger([waiting]).launch?.awaitsPage == true)
    }

    @Test func `applies several changes together or not at all`() throws {
        let ledger = try Self.ledger([.bound(appId: "a")])
        let changes: [LedgerChange] = [.lost(try Sample.version("1.1.0")), .bound(appId: "b")]
        #expect(ledger.applying(changes, in: try World().trees) == .refused(.boundTo(appId: "a", asked: "b")))
    }

    @Test func `writes nothing if a change is refused`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let keeper = LedgerKeeper(root: try bench.root())
        let before = try bench.snapshot()
        guard case .refused(.hasRole) = try keeper.propose([.removed(try Sample.version("1.0.0"))]) else {
            Issue.record("the current client was removed")
            return
        }
        #expect(throws: UpdateFailure.self) { try keeper.apply([.removed(try Sample.version("1.0.0"))]) }
        #expect(try bench.snapshot() == before)
    }
}
