import ArchiveSource
import BundleDisk
import BundleSigning
import BundleTesting
import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

@Suite struct RolloutTests {
    /// Computed with Python: `int.from_bytes(sha256(salt + device).digest()[:8], "big") % 1000`.
    @Test(arguments: [
        ("TUF-245", "", "device-1", 220), ("TUF-246", "1.1.0", "device-1", 636), ("TUF-247", "spring", "device-1", 914),
        ("TUF-248", "salt", "a", 814), ("TUF-249", "", "", 652), ("TUF-250", "ä", "ö", 393),
        ("TUF-251", "1.5.1", "0f1e2d3c4b5a69788796a5b4c3d2e1f0", 382),
    ])
    func `computes the bucket from salt and device id`(name: String, salt: String, device: String, number: Int) throws {
        #expect(try ChannelRule.bucket(salt: salt, deviceId: device) == number)
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
        ("TUF-252: no device", 0, false), ("TUF-253: all devices", 1000, true),
        ("TUF-254: up to its bucket", 636, false),
        ("TUF-255: one above its bucket", 637, true),
    ])
    func `admits devices with a bucket below the percentage`(name: String, rollout: Int, admits: Bool) async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try offer(feed, 2) { ($0.rollout, $0.salt) = (rollout, "1.1.0") }
        if admits {
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
    func `rejects a rollout that is not 0 to 1000`(name: String, rollout: JSONValue) async throws {
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

    @Test func `TUF-259: does not install a paused release`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try offer(feed, 2) { $0.isPaused = true }
        try await device.stays(at: "v1.0.0")
        #expect(try device.memory().followed?.paused.map(\.description) == ["1.1.0"])
        try offer(feed, 3) { $0.isPaused = false }
        try await device.installs("1.1.0")
        #expect(try device.memory().followed?.paused == [])
    }

    @Test func `TUF-260: keeps an installed release that is paused`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try offer(feed, 3) { $0.isPaused = true }
        try await device.stays(at: "v1.1.0")
        // The check does not report a waiting release.
        let verdict = try await device.updater().check(explaining: false).decision.verdict
        #expect(verdict == .upToDate(newest: try #require(ClientName("v1.1.0"))))
    }

    @Test func `TUF-261: returns to the previous release if the percentage shrinks`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try offer(feed, 3) { ($0.rollout, $0.salt) = (1, "1.1.0") }
        try await device.stays(at: "v1.0.0")
        try offer(feed, 4) { ($0.rollout, $0.salt) = (900, "1.1.0") }
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-262: creates an id for a device without one and keeps it`() async throws {
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
            // The id of the flag, of the store with its source, and of the machine; the expected id and its source.
            ("flag", "old", "given", "m", "flag", "given"), (nil, "old", "given", "m", "old", "given"),
            (nil, "m1", "machine", "m2", "m2", "machine"), (nil, "d", "drawn", "m", "m", "machine"),
            (nil, "m1", "machine", nil, "m1", "machine"), (nil, "d", "drawn", nil, "d", "drawn"),
            (nil, nil, nil, "m", "m", "machine"),
        ] as [(String?, String?, String?, String?, String, String)])
    func `uses the id of the flag, then of an earlier flag, then of the machine`(
        given: String?, remembered: String?, source: String?, machine: String?, id: String, from: String
    ) throws {
        var memory = FeedMemory()
        memory.deviceId = remembered
        memory.deviceIdSource = source.flatMap(FeedMemory.DeviceIdSource.init)
        let resolved = try ArchiveSource.DeviceId(given: given, machine: machine).resolved(memory)
        #expect(resolved.id == id && resolved.source.rawValue == from)
    }

    // MARK: Recall

    private func recall(_ versions: String...) throws -> [FeedMemory.Recall] {
        try versions.map { FeedMemory.Recall(version: try SemanticVersion(parsing: $0), reason: "white page") }
    }

    /// Returns the error of an update that recalls the running client without a replacement.
    private func recall(_ device: Follower) async throws -> FailureCode? {
        do {
            _ = try await device.update()
            return nil
        } catch {
            return UpdateFailure(error).code
        }
    }

    @Test func `TUF-263: returns to an installed older client after a recall`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        let requests = feed.server.requests.count
        try feed.offer(3, ["1.0.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.stays(at: "v1.0.0")
        // One request for the root and one for the document.
        #expect(feed.server.requests.count == requests + 2)
        #expect(try device.inventory().bundles.count == 2)
    }

    @Test func `TUF-264: installs an offered older client after a recall`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.installs("1.0.0")
    }

    @Test func `TUF-265: returns to the seed after a recall of all clients`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.1.0"]) { $0.recalled = try recall("1.0.0", "1.1.0") }
        #expect(try await recall(device) == .versionBlocked)
        try device.runs("embedded")
        #expect(try device.memory().followed?.recalled.count == 2)
    }

    @Test func `TUF-266: returns to the seed after an empty channel recalls the running client`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, []) { $0.recalled = try recall("1.0.0") }
        try await device.stays(at: "embedded")
    }

    @Test func `TUF-267: keeps a release that the channel no longer lists`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, [])
        try await device.stays(at: "v1.0.0")
    }

    @Test func `TUF-268: does not install a recalled release from the channel or a flat manifest`() async throws {
        let feed = try TrustFeed()
        var device = try await settled(feed)
        for sequence in 3...5 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
            try await device.stays(at: "v1.0.0")
        }
        device.path = "/manifest.json"
        try feed.offerFlat("1.1.0")
        try await device.refuses(.versionBlocked)
        #expect(!feed.server.requests.contains { $0.target == TrustFeed.archivePath("1.1.0") })
    }

    @Test func `TUF-314: reports a paused release rather than a recalled one`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed)
        try feed.offer(3, ["1.1.0", "1.2.0"]) {
            $0.recalled = try recall("1.2.0")
            $0.releases[0].isPaused = true
        }
        let answer = try await device.updater().check(explaining: false)
        #expect(answer.offered.description == "1.1.0")
        guard case .notInRollout = answer.decision.verdict else {
            Issue.record("\(answer.decision.verdict)")
            return
        }
    }

    @Test func `TUF-315: does not report a paused release below the installed version`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.3.0"])
        try feed.offer(3, ["1.1.0", "1.2.0"]) {
            $0.recalled = try recall("1.2.0")
            $0.releases[0].isPaused = true
        }
        let verdict = try await device.updater().check(explaining: false).decision.verdict
        #expect(verdict == .upToDate(newest: try #require(ClientName("v1.3.0"))))
    }

    @Test func `TUF-269: returns to a recalled release that a later document reinstates`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.stays(at: "v1.0.0")
        try feed.offer(4, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 4)] }
        try await device.stays(at: "v1.1.0")
        #expect(try device.memory().followed?.recalled == [])
    }

    @Test func `keeps a recall that later documents omit until one reinstates the version`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.stays(at: "v1.0.0")
        for sequence in 4...6 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"])
            try await device.stays(at: "v1.0.0")
        }
        #expect(try device.memory().followed?.recalled.map(\.sequence) == [3])
        try feed.offer(8, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 7)] }
        try await device.stays(at: "v1.1.0")
    }

    @Test func `keeps a recall that is newer than a reinstatement`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 3)] }
        try await device.stays(at: "v1.1.0")
        try feed.offer(4, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.stays(at: "v1.0.0")
        // A publisher that continues document 3 repeats its reinstatement.
        for sequence in 5...6 {
            try feed.offer(sequence, ["1.0.0", "1.1.0"]) { $0.reinstated = try [reinstate("1.1.0", at: 3)] }
            try await device.stays(at: "v1.0.0")
        }
    }

    private func reinstate(_ version: String, at sequence: Int) throws -> FeedMemory.Reinstatement {
        .init(version: try SemanticVersion(parsing: version), sequence: sequence)
    }

    @Test func `drops a recall after the key that signed it was replaced`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.0.0", "1.1.0"]) { $0.recalled = try recall("1.1.0") }
        try await device.stays(at: "v1.0.0")
        try feed.publish(2) { $0.set(.channel, [feed.keys[3]]) }
        try feed.offer(4, ["1.0.0", "1.1.0"], by: [feed.keys[3]])
        try await device.stays(at: "v1.1.0")
    }

    @Test func `TUF-270: applies a recall although the offered release cannot be downloaded`() async throws {
        let feed = try TrustFeed()
        let device = try await settled(feed, ["1.0.0", "1.1.0"])
        try feed.offer(3, ["1.2.0"]) { $0.recalled = try recall("1.1.0") }
        feed.server.set(TrustFeed.archivePath("1.2.0"), Route([], status: 404))
        #expect(try await recall(device) == .httpStatus)
        try device.runs("v1.0.0")
    }

    // MARK: This device

    @Test func `TUF-271: rejects a blocked release and installs the next one`() async throws {
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
    func `rejects a release for other shells and installs a lower one`(
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
        // The needed shell is stored only if a newer shell helps and no better client runs.
        let needed = maximum == nil ? minimum : nil
        #expect(try device.memory().neededShell?.description == needed)
        #expect(try device.missingShell("1.0.0") == needed)
        #expect(try device.missingShell("2.0.0") == nil)
        try feed.offer(feed.document(4, [foreign, try feed.release("1.3.0")]))
        try await device.installs("1.3.0")
        #expect(try device.memory().neededShell == nil)
    }

    @Test func `does not report a needed shell for a release that the device may not install`() async throws {
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

    /// Writes the block of a manual rollback to the ledger.
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
