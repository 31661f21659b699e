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

    @Test func `names every reason, beginning with the screen and the failure of the check`() {
        let reasons = Self.reasons {
            ($0.screen, $0.code, $0.waiting) = (.locked, "diskFull", .shell)
            ($0.blocked, $0.findings) = (["1.6.0"], ["diskSpace", "inodes"])
        }
        #expect(reasons == ["locked", "diskFull", "blocked 1.6.0", "needs a newer shell", "diskSpace", "inodes"])
    }

    @Test func `describes each waiting state of a device in different words`() {
        let words = RosterPost.WaitReason.allCases.flatMap { waiting in Self.reasons { $0.waiting = waiting } }
        #expect(Set(words).count == RosterPost.WaitReason.allCases.count)
    }
}
