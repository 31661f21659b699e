import BundleDisk
import BundleTesting
import Synchronization
import Testing

@testable import BundleCore
import BundleValues

struct UpdaterTests {
    private static func word(_ outcome: UpdateOutcome) -> String {
        switch outcome {
        case .installed(let version, _): "installed \(version)"
        case .chosen(let version, _): "chosen \(version)"
        case .upToDate(_, _, let newest): "upToDate \(newest.shortDescription)"
        case .notInRollout(_, _, let newest, _): "notInRollout \(newest.shortDescription)"
        case .waiting(_, _, let newest, let wait): "waiting \(wait.reason), then \(newest.shortDescription)"
        }
    }

    // MARK: Failures

    /// Starts a journaled download, and fails.
    private struct FailingSource: UpdateSource {
        let inner: MemorySource
        let failure: UpdateFailure

        func latestOffer(for request: OfferRequest) -> OfferStep<MemoryOffer> { inner.latestOffer(for: request) }

        func stage(
            _ offer: MemoryOffer, in area: StagingArea, reusing installed: ReuseIndex
        ) throws -> StagedBundle {
            try Array("begun".utf8).withUnsafeBytes { try area.folder.createFile(StagingArea.journalName, with: $0) }
            throw failure
        }
    }

    @Test(arguments: [(FailureCode.networkUnavailable, true), (.diskFull, false)])
    func `keeps the downloads of a failed update unless the disk is full`(
        code: FailureCode, isKept: Bool
    ) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let source = FailingSource(
            inner: MemorySource(try MemoryOffer("1.1.0")), failure: UpdateFailure(code, subject: "x", "No."))
        let updater = Updater(
            source: source,
            device: .init(store: bench.path, shell: try Sample.version("1.0.0"), appId: nil, keep: 5),
            environment: Environment())
        let failure = await #expect(throws: UpdateFailure.self) { try await updater.update() }
        #expect(failure?.code == code)
        #expect(try bench.names("downloads") == (isKept ? ["interrupted"] : []))
        #expect(try bench.names("staging").isEmpty)
    }

    // MARK: Missing versions

    private static func wanted(_ bench: StoreBench) throws -> [Wanted] {
        try Inventory.read(at: bench.path).ledger.wanted
    }

    @Test func `stores when a version was first missed, the number of attempts and the last failure`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        func fail(_ version: String, _ code: FailureCode, at time: Int) async throws {
            let updater = Updater(
                source: MemorySource(
                    try MemoryOffer(version), failure: UpdateFailure(code, subject: "x", "It is \(code).")),
                device: .init(store: bench.path, shell: try Sample.version("1.0.0"), appId: nil, keep: 5),
                environment: Environment(now: { Timestamp(clamping: time) }))
            await #expect(throws: UpdateFailure.self) { try await updater.update() }
        }
        try await fail("1.1.0", .networkUnavailable, at: 100)
        try await fail("1.1.0", .httpStatus, at: 200)
        let since = Timestamp(clamping: 100)
        #expect(
            try Self.wanted(bench) == [
                Wanted(
                    version: try Sample.version("1.1.0"), since: since, attempts: 2, code: .httpStatus,
                    reason: "It is httpStatus.")
            ])
        // The time stays when a newer release replaces the missing one.
        try await fail("1.2.0", .digestMismatch, at: 300)
        let next = try #require(try Self.wanted(bench).first)
        #expect(next.version == (try Sample.version("1.2.0")) && next.since == since && next.attempts == 3)
        try await bench.install("1.2.0")
        #expect(try Self.wanted(bench) == [])
    }

    @Test func `forgets a missing version that is no longer offered`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let failure = UpdateFailure(.httpStatus, subject: "x", "503")
        let updater = try bench.updater(try MemoryOffer("1.1.0"), failure: failure)
        await #expect(throws: failure) { try await updater.update() }
        #expect(try Self.wanted(bench).count == 1)
        _ = try await bench.updater(try MemoryOffer("1.0.0")).update()
        #expect(try Self.wanted(bench) == [])
        // A push of another source does not change it.
        await #expect(throws: failure) { try await updater.update() }
        try await bench.push("a")
        #expect(try Self.wanted(bench).map(\.version) == [try Sample.version("1.1.0")])
    }

    @Test func `does not record a version that the device may not have as missing`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let failure = UpdateFailure(.httpStatus, subject: "x", "503")
        await #expect(throws: failure) { try await bench.updater(try MemoryOffer("1.1.0"), failure: failure).update() }
        let offer = try MemoryOffer("1.2.0", minimumShell: "9.0.0")
        await #expect(throws: UpdateFailure.self) { try await bench.updater(offer).update() }
        #expect(try Self.wanted(bench) == [])
        let unsuitable = UpdateFailure(.unsuitableBundle, subject: "x", "It is for other plugins.")
        await #expect(throws: unsuitable) {
            try await bench.updater(try MemoryOffer("1.1.0"), failure: unsuitable).update()
        }
        #expect(try Self.wanted(bench) == [])
    }

    @Test(arguments: [
        (Decision.Verdict.install, FailureCode.httpStatus, WantedRule.Judgement.wanted),
        (.install, .unsuitableBundle, .notForDevice), (.install, .appMismatch, .notForDevice),
        (.unsuitable(UpdateFailure(.httpStatus, subject: "", "hold")), .httpStatus, .wanted),
        (.unsuitable(UpdateFailure(.signatureInvalid, subject: "", "unsigned")), .signatureInvalid, .wanted),
        (.unsuitable(UpdateFailure(.unsuitableBundle, subject: "", "plugins")), .unsuitableBundle, .notForDevice),
        (.upToDate(newest: .embedded), .diskFull, .notForDevice),
        (.notInRollout(newest: .embedded, detail: "paused"), .diskFull, .notForDevice),
        (.wrongApp(expected: "a", found: "b"), .appMismatch, .notForDevice),
        (.withdrawn(.recalled(reason: "leak")), .versionBlocked, .notForDevice),
    ])
    func `judges only a version that the device may have as wanted`(
        verdict: Decision.Verdict, code: FailureCode, answer: WantedRule.Judgement
    ) {
        #expect(WantedRule.judge(verdict, after: UpdateFailure(code, subject: "", "")) == answer)
    }

    // MARK: Declined versions

    @Test func `does not download a version that the program declines until it is accepted`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let asked = Mutex<[ClientVersion]>([])
        func updater(accepting isAccepted: Bool) throws -> Updater<MemorySource> {
            Updater(
                // Staging fails, so that a download would be noticed.
                source: MemorySource(
                    try MemoryOffer("1.1.0"),
                    failure: isAccepted ? nil : UpdateFailure(.internal, subject: "x", "It was downloaded.")),
                device: .init(store: bench.path, shell: try Sample.version("1.0.0"), appId: nil, keep: 5),
                shouldDownload: { version in
                    asked.withLock { $0.append(version) }
                    return isAccepted
                }, environment: Environment())
        }
        #expect(Self.word(try await updater(accepting: false).update()) == "notInRollout 1.0.0")
        #expect(try Self.wanted(bench) == [] && bench.names("staging").isEmpty)
        #expect(Self.word(try await updater(accepting: true).update()) == "installed 1.1.0")
        #expect(asked.withLock { $0.map(\.description) } == ["1.1.0", "1.1.0"])
        // Only a version that would be downloaded is offered to the program.
        #expect(Self.word(try await updater(accepting: false).update()) == "upToDate 1.1.0")
        #expect(asked.withLock { $0.count } == 2)
    }

    // MARK: Nothing to do

    @Test(arguments: ["1.1.0", "1.0.0", "1.1.0-rc.1"])
    func `writes nothing on a device that is up to date`(offered: String) async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        // Not even the lock file is created.
        try bench.remove("lock")
        let before = try bench.snapshot()
        let outcome = try await bench.updater(try MemoryOffer(offered)).update()
        #expect(Self.word(outcome) == "upToDate 1.1.0")
        #expect(try bench.snapshot() == before)
    }

    /// A source that never makes an offer.
    private struct EndlessChannel: UpdateSource {
        func latestOffer(for request: OfferRequest) -> OfferStep<MemoryOffer> {
            let known = request.inventory.ledger.feed
            var next = known
            next.clock = Timestamp(clamping: (known.clock?.secondsSinceEpoch ?? 0) + 1)
            return .remember(FeedUpdate(before: known, after: next))
        }

        func stage(
            _ offer: MemoryOffer, in area: StagingArea, reusing installed: ReuseIndex
        ) async throws -> StagedBundle { throw CancellationError() }
    }

    @Test func `aborts after too many updates of the feed without an offer`() async throws {
        let bench = try StoreBench()
        let updater = Updater(
            source: EndlessChannel(),
            device: .init(store: bench.path, shell: try Sample.version("1.0.0"), appId: nil, keep: 5),
            environment: Environment())
        let failure = await #expect(throws: UpdateFailure.self) { try await updater.update() }
        #expect(failure?.code == .internal)
        // Each update was stored before the next request.
        let clock = try Inventory.read(at: bench.path).ledger.feed.clock
        #expect(clock?.secondsSinceEpoch == OfferRequest.maximumSteps + 1)
    }

    @Test func `waits for a process that works on the store for a moment`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let updater = try bench.updater(try MemoryOffer("1.1.0"))
        var lock = try FileLock.take("lock", in: try bench.root())
        try #require(lock != nil)
        let update = Task { try await updater.update() }
        try await Task.sleep(for: .milliseconds(200))
        lock = nil
        #expect(Self.word(try await update.value) == "installed 1.1.0")
    }

    @Test func `does not wait for the lock on a device that is up to date`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let lock = try #require(try FileLock.take("lock", in: try bench.root()))
        #expect(Self.word(try await bench.updater(try MemoryOffer("1.0.0")).update()) == "upToDate 1.0.0")
        let failure = await #expect(throws: UpdateFailure.self) {
            try await bench.updater(try MemoryOffer("1.1.0")).update()
        }
        #expect(failure?.code == .storeLocked)
        withExtendedLifetime(lock) {}
    }

    @Test func `a check changes nothing and creates no store`() async throws {
        let bench = try StoreBench()
        let none = try await bench.updater(try MemoryOffer("1.0.0")).check(explaining: false)
        #expect(none.decision.verdict == .install)
        #expect(none.offered == (try Sample.version("1.0.0")))
        #expect(try bench.snapshot().entries.isEmpty)
        try await bench.install("1.0.0")
        let before = try bench.snapshot()
        let same = try await bench.updater(try MemoryOffer("1.0.0")).check(explaining: false)
        #expect(same.decision.verdict == .upToDate(newest: try Sample.name("1.0.0")))
        #expect(try bench.snapshot() == before)
    }

    @Test(arguments: [
        ("9.0.0", nil, "9.9.9", FailureCode.incompatibleShell), ("1.0.0", "org.example.b", "9.9.9", .appMismatch),
        ("1.0.0", nil, "2.0.0", .versionBlocked),
    ])
    func `refuses a version for another device without changing the store`(
        minimumShell: String, appId: String?, version: String, code: FailureCode
    ) async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let blocked = try Sample.block("2.0.0")
        try bench.editLedger {
            $0.appId = "org.example.a"
            $0.block(blocked)
        }
        let before = try bench.snapshot()
        let offer = try MemoryOffer(version, minimumShell: minimumShell, appId: appId ?? "org.example.a")
        let failure = await #expect(throws: UpdateFailure.self) { try await bench.updater(offer).update() }
        #expect(failure?.code == code)
        #expect(try bench.snapshot() == before)
    }

    @Test func `refuses a store of another application`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        try bench.editLedger { $0.appId = "org.example.a" }
        let offer = try MemoryOffer("1.1.0", appId: "org.example.b")
        let failure = await #expect(throws: UpdateFailure.self) {
            try await bench.updater(offer, appId: "org.example.b").update()
        }
        #expect(failure?.code == .appMismatch)
        #expect(try Inventory.read(at: bench.path).bundles.map(\.version.description) == ["1.0.0"])
    }

    // MARK: Installing

    @Test func `installs a release, then selects it, then removes older clients`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        // If retention came before the selection, 1.0.0 would be the previous client and stay.
        let offer = try MemoryOffer("1.2.0", appId: "org.example.a")
        let updater = try bench.updater(offer, appId: "org.example.a", keep: 1)
        let report = try #require(try await Self.report(updater))
        #expect(report.name.description == "v1.2.0")
        #expect(report.bundle?.version.description == "1.2.0")
        #expect(report.current.description == "v1.2.0")
        #expect(report.previous(hasSeed: true)?.description == "v1.1.0")
        #expect(report.retention.retained.map(\.shortDescription) == ["1.1.0", "1.2.0"])
        #expect(report.retention.removed.map(\.shortDescription) == ["1.0.0"])
        #expect(report.bytesDownloaded > 0)
        let inventory = try Inventory.read(at: bench.path)
        #expect(inventory.bundles.map(\.version.description) == ["1.1.0", "1.2.0"])
        #expect(inventory.ledger.current.description == "v1.2.0")
        #expect(inventory.ledger.appId == "org.example.a")
        #expect(try bench.names("receipts") == ["v1.1.0.json", "v1.2.0.json"])
        #expect(bench.warnings.lines.isEmpty)
    }

    private static func report(_ updater: Updater<MemorySource>) async throws -> InstallReport? {
        if case .installed(_, let report) = try await updater.update() { report } else { nil }
    }

    @Test func `leaves the store unchanged after a failure during staging`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let before = try TreeSnapshot(of: bench.path).withoutWanted
        let failure = UpdateFailure(.digestMismatch, subject: "x", "not the bytes")
        await #expect(throws: failure) {
            try await bench.updater(try MemoryOffer("1.1.0"), failure: failure).update()
        }
        #expect(try TreeSnapshot(of: bench.path).withoutWanted.changes(since: before) == [])
        try await bench.install("1.1.0")
        #expect(try Inventory.read(at: bench.path).ledger.current.description == "v1.1.0")
    }

    @Test func `leaves an empty store after a failure of the first installation`() async throws {
        let bench = try StoreBench()
        let failure = UpdateFailure(.archiveRejected, subject: "path-traversal", "refused")
        await #expect(throws: failure) {
            try await bench.updater(try MemoryOffer("1.0.0"), failure: failure).update()
        }
        let inventory = try Inventory.read(at: bench.path)
        #expect(inventory.bundles.isEmpty)
        #expect(inventory.ledger.entries.isEmpty && inventory.ledger.wanted.count == 1)
        #expect(!inventory.isUnsettled)
        #expect(try bench.names("clients").isEmpty)
        #expect(try bench.names("receipts").isEmpty)
    }

    @Test func `selects an installed client that its new manifest makes usable`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        _ = try await bench.updater(try MemoryOffer("2.0.0", maximumShell: "2.0.0"), shell: "2.0.0").update()
        let outcome = try await bench.updater(try MemoryOffer("2.0.0", maximumShell: "3.0.0"), shell: "3.0.0").update()
        #expect(Self.word(outcome) == "installed 2.0.0")
        let inventory = try Inventory.read(at: bench.path)
        #expect(inventory.ledger.current.description == "v2.0.0")
        for bundle in inventory.bundles {
            #expect(try InstalledTree.difference(of: bundle, inStoreAt: bench.path) == nil)
        }
    }

    @Test func `keeps the installation if an old client cannot be removed`() async throws {
        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        try bench.remove("receipts/v1.0.0.json")
        try bench.write("x", to: "receipts/v1.0.0.json/in the way")
        let outcome = try await bench.updater(try MemoryOffer("1.2.0"), keep: 1).update()
        #expect(Self.word(outcome) == "installed 1.2.0")
        #expect(bench.warnings.lines.count == 1)
        #expect(bench.warnings.lines.first?.contains("receipts/v1.0.0.json") == true)
        // The next run continues the removal, although it has nothing to install.
        #expect(Self.word(try await bench.updater(try MemoryOffer("1.2.0"), keep: 1).update()) == "upToDate 1.2.0")
        #expect(try bench.names("receipts") == ["v1.1.0.json", "v1.2.0.json"])
        #expect(try bench.names("staging").isEmpty)
    }

    // MARK: Interrupted runs

    /// Changes a store of 1.0.0, 1.1.0 and 1.2.0, installed with `keep` 2, as an interrupted run would.
    struct Interruption: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let spoil: @Sendable (StoreBench) async throws -> Void
    }

    @Test(arguments: [
        Interruption(testDescription: "before the entry") { bench in
            let ledger = try bench.text("ledger.json") ?? ""
            try await bench.install("1.2.0")
            try bench.write(ledger, to: "ledger.json")
        },
        Interruption(testDescription: "before the selection") { bench in
            let ledger = try LedgerFile.read(try bench.root()) ?? Ledger()
            try await bench.install("1.2.0")
            try bench.editLedger { next in
                let entries = next.entries
                next = ledger
                for entry in entries { next.record(entry) }
            }
        },
        Interruption(testDescription: "before previousVersion") { bench in
            try await bench.install("1.2.0")
            try bench.write("v1.0.0\n", to: "clients/previousVersion")
            try bench.write("x", to: "staging/attempt-1/x")
        },
        Interruption(testDescription: "before retention") { bench in try await bench.install("1.2.0") },
        Interruption(testDescription: "between ledger and folder in retention") { bench in
            try await bench.install("1.2.0")
            try bench.editLedger { $0.forget($0.entries[0].version) }
        },
    ])
    func `completes an interrupted run even if the device is up to date`(_ stop: Interruption) async throws {
        let whole = try await StoreBench(installing: "1.0.0", "1.1.0")
        _ = try await whole.updater(try MemoryOffer("1.2.0"), keep: 2).update()

        let bench = try await StoreBench(installing: "1.0.0", "1.1.0")
        try await stop.spoil(bench)
        let outcome = try await bench.updater(try MemoryOffer("1.2.0"), keep: 2).update()
        #expect(Self.word(outcome) == "upToDate 1.2.0")
        #expect(try Self.comparable(bench) == Self.comparable(whole))

        // Another run has nothing left to do.
        let before = try bench.snapshot()
        _ = try await bench.updater(try MemoryOffer("1.2.0"), keep: 2).update()
        #expect(try bench.snapshot() == before)
    }

    /// Returns the contents of the store without its times.
    private static func comparable(_ bench: StoreBench) throws -> [String: [UInt8]] {
        var contents = try bench.snapshot().entries.mapValues { $0.content ?? [] }
        let ledger = try Inventory.read(at: bench.path).ledger
        let words = "\(ledger.current) \(String(describing: ledger.previous)) \(ledger.entries.map(\.contentSha256))"
        contents["ledger.json"] = Array(words.utf8)
        contents["ledger.before.json"] = nil
        return contents
    }

    @Test func `selects the client for a newer shell`() async throws {
        let bench = try StoreBench()
        _ = try await bench.updater(try MemoryOffer("1.0.0", maximumShell: "1.9.0"), shell: "1.0.0").update()
        _ = try await bench.updater(try MemoryOffer("2.0.0", minimumShell: "2.0.0"), shell: "2.0.0").update()
        // The feed has nothing new for the old shell, nor for the new one after it.
        _ = try await bench.updater(try MemoryOffer("1.0.0"), shell: "1.0.0").update()
        #expect(try Inventory.read(at: bench.path).ledger.current.description == "v1.0.0")
        _ = try await bench.updater(try MemoryOffer("2.0.0", minimumShell: "2.0.0"), shell: "2.0.0").update()
        #expect(try Inventory.read(at: bench.path).ledger.current.description == "v2.0.0")
    }

    @Test func `binds a store that is up to date to an application that is named later`() async throws {
        let bench = try await StoreBench(installing: "1.0.0")
        let offer = try MemoryOffer("1.0.0", appId: "org.example.a")
        _ = try await bench.updater(offer, appId: "org.example.a").update()
        #expect(try Inventory.read(at: bench.path).ledger.appId == "org.example.a")
    }
}
