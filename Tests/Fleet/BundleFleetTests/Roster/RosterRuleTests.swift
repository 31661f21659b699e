import BundleFormats
import ArchiveSource
import BundleTesting
import BundleValues
import Testing

@testable import BundleFleet

@Suite("RosterRule") struct RosterRuleTests {
    private static let seen = Timestamp(clamping: 1_800_000_000)

    /// Returns the reasons for a device with the last message at `seen`.
    private static func reasons(
        checked seconds: Int? = nil, _ change: (inout RosterPost) -> Void = { _ in }
    ) -> [String] {
        var post = RosterPost(
            device: "3f9a0b1c2d3e4f50", name: "Lobby", state: .good, program: "0.9.0", interval: 900, runs: "1.5.0",
            checked: seconds.map { Timestamp(clamping: seen.secondsSinceEpoch + $0) })
        change(&post)
        return RosterRow(post: post, seen: seen, first: seen, since: seen, conflict: nil, conflicts: 0)
            .reasons(at: seen).map(\.words)
    }

    @Test func `returns no reason for a device that works`() {
        #expect(Self.reasons().isEmpty)
        #expect(Self.reasons(checked: -900) { $0.screen = .client }.isEmpty)
    }

    @Test func `names a clock that is ahead of the host or behind it`() {
        #expect(Self.reasons(checked: 300).isEmpty)
        #expect(Self.reasons(checked: 301) == ["clock 5 minutes ahead"])
        #expect(
            Self.reasons(checked: 400 * 86_400) { $0.code = "expired" } == [
                "clock 400 days ahead", "channel or trust root expired",
            ])
        // The pause between checks grows while the feed fails.
        #expect(Self.reasons(checked: -86_400).isEmpty)
        #expect(Self.reasons(checked: -3 * 86_400) == ["clock 3 days behind"])
    }

    @Test func `names a blocked version only if it is newer than the client that runs`() {
        #expect(Self.reasons { $0.blocked = ["1.4.0"] }.isEmpty)
        #expect(Self.reasons { $0.blocked = ["1.4.0", "1.6.0"] } == ["blocked 1.6.0"])
        #expect(Self.reasons { ($0.runs, $0.blocked) = (nil, ["1.4.0"]) } == ["blocked 1.4.0"])
    }

    @Test func `names every reason, beginning with those that keep updates away`() {
        let reasons = Self.reasons {
            ($0.screen, $0.code, $0.waiting) = (.locked, "diskFull", .shell)
            ($0.blocked, $0.findings) = (["1.6.0"], ["diskSpace", "inodes"])
        }
        #expect(
            reasons == [
                "blocked 1.6.0", "disk full", "little free space", "few free inodes", "needs a newer shell", "locked",
            ])
    }

    @Test func `a device that rightly waits needs no attention`() {
        var words: Set<String> = []
        for waiting in RosterPost.WaitReason.allCases {
            let reasons = Self.reasons { $0.waiting = waiting }
            #expect(reasons == (waiting == .shell ? ["needs a newer shell"] : []))
            var post = RosterPost(device: "3f9a0b1c2d3e4f50", name: "", state: .good, program: "", interval: 900)
            post.waiting = waiting
            let row = RosterRow(
                post: post, seen: Self.seen, first: Self.seen, since: Self.seen, conflict: nil, conflicts: 0)
            if let wait = RosterRule.waits(row) { words.insert(wait) }
        }
        #expect(words.count == RosterPost.WaitReason.allCases.count - 1)
    }

    @Test(arguments: [
        ("httpStatus:404", "the server answers 404"), ("httpStatus", "the server refuses"),
        ("versionBlocked:1.6.0", "blocked 1.6.0"), ("versionBlocked", "version blocked"), ("diskFull", "disk full"),
    ])
    func `names the status or the version of the last failure, also in messages of older devices`(
        code: String, words: String
    ) throws {
        #expect(Self.reasons { $0.code = code } == [words])
        var post = RosterPost(device: "3f9a0b1c2d3e4f50", name: "", state: .good, program: "0.9.0", interval: 900)
        post.code = code
        #expect(try RosterPost(parsing: post.bytes).code == code)
    }

    @Test func `names a blocked version once`() {
        #expect(Self.reasons { ($0.code, $0.blocked) = ("versionBlocked", ["1.6.0"]) } == ["blocked 1.6.0"])
        #expect(Self.reasons { ($0.code, $0.blocked) = ("versionBlocked:1.6.0", ["1.6.0"]) } == ["blocked 1.6.0"])
        #expect(Self.reasons { ($0.code, $0.waiting) = ("incompatibleShell", .shell) } == ["needs a newer shell"])
        #expect(RosterPost.code("versionBlocked", value: "1.5.0") == "versionBlocked:1.5.0")
        #expect(RosterPost.code("versionBlocked", value: "1.5.0-a-very-long-label") == "versionBlocked")
    }

    private static func row(_ change: (inout RosterPost) -> Void = { _ in }, newest: String? = nil) throws -> RosterRow
    {
        var post = RosterPost(
            device: "3f9a0b1c2d3e4f50", name: "Lobby", state: .good, program: "0.9.0", interval: 900, runs: "1.5.0")
        change(&post)
        let newest = try newest.map {
            RosterRow.NewestRelease(version: try SemanticVersion(parsing: $0), since: seen)
        }
        return RosterRow(
            post: post, seen: seen, first: seen, since: seen, conflict: nil, conflicts: 0, newest: newest)
    }

    @Test func `every reason has words and one sentence as its remedy`() throws {
        let long = Timestamp(clamping: Self.seen.secondsSinceEpoch + 5000)
        let codes = FailureCode.allCases.map(\.rawValue) + ["httpStatus:500", "versionBlocked:2.0.0", "codeOfTomorrow"]
        for code in codes {
            let reasons = try Self.row { ($0.code, $0.state, $0.screen) = (code, .failed, .failure) }.reasons(at: long)
            #expect(reasons.map(\.kind).prefix(1) == [.failed] && reasons.contains { $0.kind == .silent })
            for reason in reasons {
                #expect(!reason.words.isEmpty && reason.remedy.hasSuffix(".") && !reason.key.contains(" "), "\(reason)")
                #expect(reason.remedy.count { $0 == "." } < 12 && !reason.remedy.contains(". "), "\(reason.remedy)")
            }
        }
        for finding in FindingCode.allCases {
            let reasons = try Self.row { ($0.findings, $0.runs) = ([finding.rawValue], nil) }.reasons(at: Self.seen)
            #expect(reasons.map(\.code) == [finding.rawValue])
            #expect(reasons.allSatisfy { $0.words == finding.words && $0.remedy == finding.remedy })
        }
    }

    @Test func `two facts with one cause are one reason`() throws {
        func words(_ change: (inout RosterPost) -> Void) throws -> [String] {
            try Self.row(change).reasons(at: Self.seen).map(\.words)
        }
        #expect(try words { ($0.screen, $0.findings) = (.locked, ["session"]) } == ["locked"])
        #expect(try words { ($0.state, $0.findings) = (.failed, ["clients"]) } == ["failed"])
        #expect(try words { $0.findings = ["clients"] } == ["a release did not start"])
        #expect(try words { ($0.code, $0.findings) = ("diskFull", ["wanted"]) } == ["disk full"])
        #expect(try words { $0.findings = ["blankScreen"] } == ["screen blank"])
        let ahead = Timestamp(clamping: Self.seen.secondsSinceEpoch + 7200)
        #expect(try words { ($0.checked, $0.findings) = (ahead, ["clock"]) } == ["clock 2 hours ahead"])
    }

    @Test func `failed, blocked, nothing shown, silent, clock, disk and conflict come first and are urgent`() {
        let kinds = RosterReason.Kind.allCases
        #expect(kinds.prefix(7) == [.failed, .blocked, .nothingShown, .silent, .clock, .disk, .conflict])
        #expect(kinds.filter { !$0.isUrgent } == [.shell, .screen, .finding])
    }

    @Test(arguments: [
        ("1.5.0" as String?, RosterPost.ClientState.good, "1.5.1" as String?, true), ("1.5.1", .good, "1.5.1", false),
        ("1.6.0", .trial, "1.5.1", false), ("9.0.0", .seed, "1.5.1", true), (nil, .none, "1.5.1", true),
        ("1.5.1", .failed, "1.5.1", true), ("abcdef", .good, "1.5.1", false), ("1.5.0", .good, nil, false),
    ])
    func `a device is behind if it runs nothing, its seed, a failed version, or an older one than the newest release`(
        runs: String?, state: RosterPost.ClientState, newest: String?, isBehind: Bool
    ) throws {
        let row = try Self.row({ ($0.runs, $0.state) = (runs, state) }, newest: newest)
        #expect(row.isBehind == isBehind)
        #expect(row.isIn(.behind, at: Self.seen, []) == isBehind)
    }

    @Test func `counts the devices with the newest release, and why the others do not have it`() throws {
        let folder = try TemporaryFolder()
        let names = ["Lobby", "Hall", "Attic "].joined(separator: "\r\n")
        let expected = try ExpectedDevices(file: folder.write([0xEF, 0xBB, 0xBF] + Array(names.utf8), to: "names"))
        var inventory = RosterInventory(expecting: expected)
        #expect(inventory.text == "3 devices; 3 never seen")
        inventory.add(try Self.row({ $0.runs = "1.5.1" }, newest: "1.5.1"), at: Self.seen)
        inventory.add(try Self.row({ $0.name = "Other" }, newest: "1.5.1"), at: Self.seen)
        inventory.add(try Self.row({ ($0.name, $0.code) = ("Attic", "diskFull") }, newest: "1.5.1"), at: Self.seen)
        inventory.add(try Self.row({ ($0.name, $0.waiting) = ("R", .rollout) }, newest: "1.5.1"), at: Self.seen)
        #expect(
            inventory.text
                == "1 of 5 has 1.5.1; 3 behind since 2027-01-15 (1 disk, 1 on their way, 1 wait for the rollout); 1 never seen"
        )
        #expect(inventory.neverSeen == ["Hall"])
        let counts = RosterGroup.allCases.map { inventory.count(of: $0) }
        #expect(counts == [2, 0, 0, 1, 3, 1])
        let parsed = try RosterInventory(MemberReader(.object(inventory.json), of: "inventory"))
        #expect(parsed.text == inventory.text && RosterGroup.allCases.map { parsed.count(of: $0) } == counts)
        inventory.add(
            try Self.row({ ($0.channel, $0.runs) = ("beta", "2.0.0") }, newest: "2.0.0"), at: Self.seen)
        #expect(inventory.text.hasSuffix("; beta: 1 of 1 has 2.0.0; 1 never seen"))
    }

    @Test func `refuses a list of expected devices that is not text in UTF-8 with one name per line`() throws {
        let folder = try TemporaryFolder()
        for bytes in [[0xFF, 0xFE, 0x4C, 0], [0x4C, 0xC3, 0x28], Array(String(repeating: "n", count: 65).utf8)]
            as [[UInt8]]
        {
            let path = try folder.write(bytes, to: "names")
            #expect { try ExpectedDevices(file: path) } throws: { ($0 as? UpdateFailure)?.code == .configInvalid }
        }
        #expect { try ExpectedDevices(file: folder.file("none")) } throws: { _ in true }
    }

    @Test func `the newest release is the highest one that is neither recalled, paused nor for groups only`() throws {
        func release(_ version: String, _ change: (inout ChannelDocument.Release) -> Void = { _ in }) throws
            -> ChannelDocument.Release
        {
            let json =
                #"{"version":"\#(version)","url":"a.zip","sha256":"\#(String(repeating: "0", count: 64))","minShellVersion":"1.0.0","signature":"AAAA"}"#
            var release = ChannelDocument.Release(try ManifestFormat.parse(Array(json.utf8)))
            change(&release)
            return release
        }
        var channel = ChannelDocument(
            appId: nil, channel: "stable", sequence: 1, issuedAt: Self.seen,
            expires: Timestamp(clamping: Self.seen.secondsSinceEpoch + 1))
        #expect(RosterRule.newest(of: channel, at: Self.seen) == nil)
        channel.releases = [
            try release("1.0.0"), try release("1.1.0") { $0.rollout = 10 }, try release("1.2.0") { $0.isPaused = true },
            try release("1.3.0") { ($0.groups, $0.isOnlyForGroups) = (["qa"], true) },
            try release("1.4.0") { $0.rollout = 0 },
        ]
        #expect(RosterRule.newest(of: channel, at: Self.seen) == (try SemanticVersion(parsing: "1.1.0")))
    }

    @Test func `refuses a message that is older than the last one of its device`() {
        func verdict(_ checked: Int?, after last: Int?, seen: Int = 1000) -> RosterRule.Verdict {
            let post = RosterPost(
                device: "3f9a0b1c2d3e4f50", name: "", state: .good, program: "", interval: 900,
                checked: checked.map { Timestamp(clamping: $0) })
            return RosterRule.verdict(
                on: post, by: "k",
                after: RosterRule.LastPost(
                    key: "k", checked: last.map { Timestamp(clamping: $0) }, seen: Timestamp(clamping: seen)),
                devices: 1)
        }
        #expect(verdict(999, after: 1000) == .older && verdict(nil, after: 1000) == .older)
        #expect(verdict(1000, after: 1000) == .known && verdict(1001, after: 1000) == .known)
        #expect(verdict(nil, after: nil) == .known && verdict(1, after: nil) == .known)
        // The clock of the device was days ahead and is right again.
        #expect(verdict(1301, after: 900_000) == .known && verdict(1299, after: 900_000) == .older)
    }

    @Test func `a name in the form of an ID is not a name`() {
        for name in [
            "1f0a2b3c4d5e6f70", "1F0A2B3C4D5E6F70", " 1f0a2b3c4d5e6f70", "device:1f0a2b3c4d5e6f70", "device:x",
            "Device:Lobby", "device: 1f0a",
        ] {
            #expect(!RosterPost.isName(name), "\(name)")
        }
        for name in ["", "Lobby 3", "qa", "1f0a2b3c4d5e6f7", "devices", "the device:"] {
            #expect(RosterPost.isName(name), "\(name)")
        }
    }
}
