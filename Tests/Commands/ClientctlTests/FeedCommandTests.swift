import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// `clientctl feed` by the built program.
@Suite(.ownThread) struct FeedCommandTests {
    private func gc(_ site: ChannelSite, _ more: String...) throws -> Outcome {
        try Clientctl.run(["feed", "gc", "--feed", site.feed, "--json"] + more)
    }

    @Test func `gc removes what nothing names when it is told to, and devices go on`() throws {
        let site = try ChannelSite()
        for version in ["1.0.0", "1.1.0", "1.2.0"] { try site.publish(version, ["--rollout", "100%", "--no-deltas"]) }
        for version in ["1.0.0", "1.1.0"] { try site.release("remove", "--version", version).succeeded("changed") }
        let young = try gc(site, "--keep", "1")
        #expect(young.succeeded("dryRun")["removed"] == .array([]))
        let plan = try gc(site, "--keep", "1", "--min-age", "0s").succeeded("dryRun")
        let paths = (plan["removed"]?.arrayValue ?? []).compactMap { $0.objectValue?["path"]?.stringValue }
        #expect(paths.sorted() == ["releases/v1.0.0", "releases/v1.1.0"])
        #expect((plan["bytes"]?.integerValue ?? 0) > 0)
        try Clientctl.run(["verify", "\(site.feed)/releases/v1.0.0/manifest.json", "--trust", site.trust, "--json"])
            .succeeded("verified")
        let people = try Clientctl.run(["feed", "gc", "--feed", site.feed, "--keep", "1", "--min-age", "0s"])
        #expect(people.text.contains("--remove does it") && people.text.contains("manifest.json offers it"))
        try gc(site, "--keep", "1", "--min-age", "0s", "--remove").succeeded("removed")
        try gc(site, "--keep", "1", "--min-age", "0s", "--remove").succeeded("unchanged")
        try site.install("a").succeeded("installed")
        try site.release("restore", "--copy", "1").failed(78, "configInvalid")
        try site.publish("1.0.0", ["--rollout", "100%"]).succeeded()
    }

    @Test func `gc refuses what is no feed`() throws {
        let site = try ChannelSite()
        try Clientctl.run(["feed", "gc", "--feed", site.folder.file("none"), "--json"]).failed(78, "configInvalid")
        try gc(site, "--keep", "0").failed(64, "usage")
    }
}
