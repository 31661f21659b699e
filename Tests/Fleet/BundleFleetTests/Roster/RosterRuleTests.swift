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
        return RosterRule.reasons(
            RosterRow(post: post, seen: seen, first: seen, since: seen, conflict: nil, conflicts: 0), at: seen)
    }

    @Test func `returns no reason for a device that works`() {
        #expect(Self.reasons().isEmpty)
        #expect(Self.reasons(checked: -900) { $0.screen = .client }.isEmpty)
    }

    @Test func `names a clock that is ahead of the host or behind it`() {
        #expect(Self.reasons(checked: 300).isEmpty)
        #expect(Self.reasons(checked: 301) == ["clock 5 minutes ahead"])
        #expect(Self.reasons(checked: 400 * 86_400) { $0.code = "expired" } == ["clock 400 days ahead", "expired"])
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
        #expect(reasons == ["blocked 1.6.0", "diskFull", "locked", "needs a newer shell", "diskSpace", "inodes"])
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
        ("httpStatus:404", "httpStatus 404"), ("httpStatus", "httpStatus"), ("versionBlocked:1.6.0", "blocked 1.6.0"),
        ("versionBlocked", "versionBlocked"), ("diskFull", "diskFull"),
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
