import ArchiveSource
import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

@Suite struct `Rollout and recall` {
    /// Computed with Python: `int.from_bytes(sha256(salt + device).digest()[:8], "big") % 1000`.
    @Test(arguments: [
        ("TUF-245", "", "device-1", 220), ("TUF-246", "1.1.0", "device-1", 636), ("TUF-247", "spring", "device-1", 914),
        ("TUF-248", "salt", "a", 814), ("TUF-249", "", "", 652), ("TUF-250", "ä", "ö", 393),
        ("TUF-251", "1.5.1", "0f1e2d3c4b5a69788796a5b4c3d2e1f0", 382),
    ])
    func `membership is drawn by salt and device`(name: String, salt: String, device: String, number: Int) throws {
        #expect(try ChannelRule.draw(salt: salt, deviceId: device) == number)
    }

    private func offer(
        _ feed: TrustFeed, _ sequence: Int, _ version: String = "1.1.0",
        _ change: (inout ChannelDocument.Release) -> Void
    ) throws {
        var release = try feed.release(version)
        change(&release)
        try feed.offer(feed.document(sequence, [try feed.release("1.0.0"), release]))
    }

    private func settled(_ feed: TrustFeed, _ versions: [String] = ["1.0.0"]) async throws -> Follower {
        let device = try Follower(feed)
        for (index, version) in versions.enumerated() {
            try feed.offer(index + 1, [version])
            try await device.installs(version)
        }
        return device
    }

    @Test(arguments: [
        ("TUF-252: nobody", 0, false), ("TUF-253: everybody", 1000, true),
        ("TUF-254: as many as its number", 636, false),
        ("TUF-255: one more", 637, true),
    ])
    func `a rollout takes those whose number is below it`(name: String, rollout: Int, takes: Bool) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try offer(feed, 2) { ($0.rollout, $0.salt) = (rollout, "1.1.0") }
        if takes {
            try await device.installs("1.1.0")
        } else {
            try await device.stays(at: "v1.0.0")
            #expect(try device.memory().followed?.leftOut.map(\.description) == ["1.1.0"])
        }
    }

    @Test(arguments: [
        ("TUF-256: more than all", JSONValue.integer(1001)), ("TUF-257: less than none", .integer(-1)),
        ("TUF-258: a text", .string("10")),
    ])
    func `a rollout is a number of thousandths`(name: String, rollout: JSONValue) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(2) { payload in
            try edited(payload) { document in
                var release = document["releases"]?.arrayValue?.first?.objectValue ?? [:]
                release["rollout"] = rollout
                document["releases"] = .array([.object(release)])
            }
        }
        try await device.refuses(.manifestMalformed)
    }

    @Test func `TUF-259: a paused release reaches no further device`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try offer(feed, 2) { $0.isPaused = true }
        try await device.stays(at: "v1.0.0")
        try offer(feed, 3) { $0.isPaused = false }
        try await device.installs("1.1.0")
    }

    @Test func `TUF-260: those who have a paused release keep it`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try offer(feed, 3) { $0.isPaused = true }
        try await device.stays(at: "v1.1.0")
        // They are not told that they wait for something.
        let verdict = try await device.updater().check(explaining: false).decision.verdict
        #expect(verdict == .upToDate(newest: try #require(ClientName("v1.1.0"))))
    }

    @Test func `TUF-261: a rollout that shrinks calls the release back`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try offer(feed, 3) { ($0.rollout, $0.salt) = (1, "1.1.0") }
        try await device.stays(at: "v1.0.0")
        try offer(feed, 4) { ($0.rollout, $0.salt) = (900, "1.1.0") }
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-262: a device without an id draws one and keeps it`() async throws {
        let feed = try TrustFeed()
        var device = try Follower(feed)
        device.deviceId = nil
        try feed.offer(1, ["1.0.0"])
        try await device.installs("1.0.0")
        let id = try #require(try device.memory().deviceId)
        #expect(!id.isEmpty)
        try feed.offer(2, ["1.1.0"])
        try await device.installs("1.1.0")
        #expect(try device.memory().deviceId == id)
    }

    @Test(
        arguments: [
            // The id of the flag, of the store with its source, and of the machine; the id that counts, and its source.
            ("flag", "old", "given", "m", "flag", "given"), (nil, "old", "given", "m", "old", "given"),
            (nil, "m1", "machine", "m2", "m2", "machine"), (nil, "d", "drawn", "m", "m", "machine"),
            (nil, "m1", "machine", nil, "m1", "machine"), (nil, "d", "drawn", nil, "d", "drawn"),
            (nil, nil, nil, "m", "m", "machine"),
        ] as [(String?, String?, String?, String?, String, String)])
    func `takes the id of the flag, then of an earlier flag, then of the machine`(
        given: String?, remembered: String?, source: String?, machine: String?, id: String, from: String
    ) throws {
        var memory = FeedMemory()
        memory.deviceId = remembered
        memory.deviceIdSource = source.flatMap(FeedMemory.DeviceIdSource.init)
        let resolved = try ArchiveSource.DeviceId(given: given, machine: machine).resolved(memory)
        #expect(resolved.id == id && resolved.source.rawValue == from)
    }

    // MARK: Recall

    private func revoke(_ versions: String...) throws -> [FeedMemory.Revocation] {
        try versions.map { FeedMemory.Revocation(version: try SemanticVersion(parsing: $0), reason: "white page") }
    }

    /// The code of an update that calls back what runs and has nothing to put in its place.
    private func recall(_ device: Follower) async throws -> FailureCode? {
        do {
            _ = try await device.update()
            return nil
        } catch {
            return UpdateFailure(error).code
        }
    }

    @Test func `TUF-263: a revocation leads back to an older client that is installed`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        let requests = feed.server.requests.count
        try feed.offer(3, ["1.0.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.stays(at: "v1.0.0")
        // The root, and the document.
        #expect(feed.server.requests.count == requests + 2)
        #expect(try device.inventory().bundles.count == 2)
    }

    @Test func `TUF-264: a revocation leads back to an older client that is offered`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.installs("1.0.0")
    }

    @Test func `TUF-265: a revocation of all there is leads back to the seed`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.1.0"]) { $0.revoked = try revoke("1.0.0", "1.1.0") }
        #expect(try await recall(device) == .versionBlocked)
        try device.runs("embedded")
        #expect(try device.memory().followed?.revoked.count == 2)
    }

    @Test func `TUF-266: an empty channel that revokes what runs leads back to the seed`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, []) { $0.revoked = try revoke("1.0.0") }
        try await device.stays(at: "embedded")
    }

    @Test func `TUF-267: a release that the channel no longer lists runs on`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, [])
        try await device.stays(at: "v1.0.0")
    }

    @Test func `TUF-268: a revoked release is not offered again, by the channel or by its manifest`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        for sequence in 3...5 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
            try await device.stays(at: "v1.0.0")
        }
        device.path = "/manifest.json"
        try feed.offerFlat("1.1.0")
        try await device.refuses(.versionBlocked)
        #expect(!feed.server.requests.contains { $0.target == TrustFeed.archivePath("1.1.0") })
    }

    @Test func `TUF-314: a device hears of what it waits for before it hears of a recall`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, ["1.1.0", "1.2.0"]) {
            $0.revoked = try revoke("1.2.0")
            $0.releases[0].isPaused = true
        }
        let answer = try await device.updater().check(explaining: false)
        #expect(answer.offered.description == "1.1.0")
        guard case .notInRollout = answer.decision.verdict else {
            Issue.record("\(answer.decision.verdict)")
            return
        }
    }

    @Test func `TUF-315: a device does not hear of what waits below the version that it has`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.3.0"])
        try feed.offer(3, ["1.1.0", "1.2.0"]) {
            $0.revoked = try revoke("1.2.0")
            $0.releases[0].isPaused = true
        }
        let verdict = try await device.updater().check(explaining: false).decision.verdict
        #expect(verdict == .upToDate(newest: try #require(ClientName("v1.3.0"))))
    }

    @Test func `TUF-269: a revoked release is back when a later document reinstates it by name`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.stays(at: "v1.0.0")
        try feed.offer(4, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 4)] }
        try await device.stays(at: "v1.1.0")
        #expect(try device.memory().followed?.revoked == [])
    }

    @Test func `a recall that later documents leave out stays on the device until one reinstates it`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.stays(at: "v1.0.0")
        for sequence in 4...6 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"])
            try await device.stays(at: "v1.0.0")
        }
        #expect(try device.memory().followed?.revoked.map(\.sequence) == [3])
        try feed.offer(8, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 7)] }
        try await device.stays(at: "v1.1.0")
    }

    @Test func `a reinstatement from before a recall does not take that recall back`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 3)] }
        try await device.stays(at: "v1.1.0")
        try feed.offer(4, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.stays(at: "v1.0.0")
        // What a publisher makes that builds on document 3.
        for sequence in 5...6 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 3)] }
            try await device.stays(at: "v1.0.0")
        }
    }

    private func reinstate(_ version: String, at sequence: Int) throws -> FeedMemory.Reinstatement {
        .init(version: try SemanticVersion(parsing: version), sequence: sequence)
    }

    @Test func `a recall counts no more once the key that signed it is replaced`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.revoked = try revoke("1.1.0") }
        try await device.stays(at: "v1.0.0")
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(4, ["1.0.0", "1.1.0"], by: [feed.keys[3]])
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-270: a recall counts although what is offered instead cannot be had`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.2.0"]) { $0.revoked = try revoke("1.1.0") }
        feed.server.set(TrustFeed.archivePath("1.2.0"), Route([], status: 404))
        #expect(try await recall(device) == .httpStatus)
        try device.runs("v1.0.0")
    }

    // MARK: This device

    @Test func `TUF-271: a release that is blocked here is refused, the next one is taken`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try device.block("1.1.0")
        try feed.offer(2, ["1.1.0"])
        try await device.refuses(.versionBlocked, learnt: true)
        try feed.offer(3, ["1.1.0", "1.2.0"])
        try await device.installs("1.2.0")
    }

    @Test(
        arguments: [
            ("TUF-272: a shell that is too old", "2.0.0", nil), ("TUF-273: a shell that is too new", "0.1.0", "0.9.0"),
        ] as [(String, String, String?)])
    func `a release for other shells is refused, one below it is taken`(
        name: String, minimum: String, maximum: String?
    ) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        let foreign = try feed.release("1.2.0") {
            $0.shells = try ShellRange(
                minimum: SemanticVersion(parsing: minimum),
                maximum: try maximum.map { try SemanticVersion(parsing: $0) })
        }
        try feed.offer(feed.document(2, [foreign]))
        try await device.refuses(.incompatibleShell, learnt: true)
        try feed.offer(feed.document(3, [foreign, try feed.release("1.1.0")]))
        try await device.installs("1.1.0")
        // Only a newer shell would help, and only while nothing that runs is better.
        let needed = maximum == nil ? minimum : nil
        #expect(try device.memory().neededShell?.description == needed)
        #expect(try device.missingShell("1.0.0") == needed)
        #expect(try device.missingShell("2.0.0") == nil)
        try feed.offer(feed.document(4, [foreign, try feed.release("1.3.0")]))
        try await device.installs("1.3.0")
        #expect(try device.memory().neededShell == nil)
    }

    @Test func `a shell that is too old for what nobody may have, or for no longer, is not told so`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        func foreign(_ change: (inout ChannelDocument.Release) -> Void = { _ in }) throws -> ChannelDocument.Release {
            var release = try feed.release("1.2.0") {
                $0.shells = try ShellRange(minimum: SemanticVersion(parsing: "2.0.0"))
            }
            change(&release)
            return release
        }
        func offer(_ sequence: Int, _ release: ChannelDocument.Release) async throws -> String? {
            try feed.offer(feed.document(sequence, [release, try feed.release("1.0.0")]))
            _ = try? await device.update()
            return try device.memory().neededShell?.description
        }
        #expect(try await offer(2, try foreign()) == "2.0.0")
        #expect(try await offer(3, try foreign { $0.rollout = 0 }) == nil)
        #expect(try await offer(4, try foreign()) == "2.0.0")
        #expect(try await offer(5, try foreign { $0.isPaused = true }) == nil)
    }
}

extension Follower {
    fileprivate func missingShell(_ shell: String) throws -> String? {
        try SelectionRule.missingShell(try inventory(), shell: SemanticVersion(parsing: shell))?.description
    }

    /// What a rollback by hand leaves in the ledger.
    fileprivate func block(_ version: String) throws {
        let folder = try Directory.open(store)
        var ledger = try LedgerFile.read(folder) ?? Ledger()
        ledger.block(
            Ledger.Block(
                version: .archive(try SemanticVersion(parsing: version)), cause: .byHand, reason: "by hand", count: 0,
                since: Day.number(1)))
        try LedgerFile.write(ledger, to: folder)
    }
}
