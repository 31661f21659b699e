import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl feed export`, run as the built program. An offline kit is a copy of a feed for a USB drive.
@Suite(.ownThread) struct FeedExportTests {
    private let site: ChannelSite
    private let kit: String

    init() throws {
        site = try ChannelSite()
        // A separate folder shows files that a run leaves beside the kit.
        kit = try site.folder.writeTree(["usb/other": []], to: ".") + "/usb/kit"
    }

    private func export(_ more: String...) throws -> Outcome {
        try Clientctl.run(["feed", "export", "--feed", site.feed, "--to", kit, "--json"] + more)
    }

    private var filesBesideKit: Set<String> {
        get throws { Set(try TreeSnapshot(of: site.folder.file("usb")).files.keys) }
    }

    @Test func `a device installs from an offline kit by channel or manifest`() throws {
        for version in ["0.9.0", "1.0.0", "1.1.0"] { try site.publish(version, ["--rollout", "100%"]) }
        try site.release("withdraw", "--version", "0.9.0").succeeded("changed")
        let done = try export("--trust", site.pinned).succeeded("exported")
        #expect(done.string("verifiedBy") == "given" && done.string("offered") == "1.1.0")
        #expect(done["channels"] == .array([.object(["channel": .string("stable"), "sequence": .integer(4)])]))
        let files = try TreeSnapshot(of: kit).files
        #expect(Set(files.keys) == Set(done.strings("written") ?? []))
        #expect(files["trust.json"] != nil && files["trust/1.json"] != nil && files["channels/stable/1.json"] == nil)
        #expect(!files.keys.contains { $0.hasPrefix("releases/v0.9.0") })
        let readme = String(decoding: files["README.txt"] ?? [], as: UTF8.self)
        #expect(
            readme.split(separator: "\n").count == 3
                && readme.contains("clientctl install --channel KIT/channels/stable.json"))
        // The feed no longer exists.
        try Clientctl.stock(["mv", site.feed, site.folder.file("elsewhere")])
        func install(_ store: String, _ more: String...) throws -> Outcome {
            try Clientctl.run(
                [
                    "install", "--trust", site.pinned, "--store", site.folder.file(store), "--shell-version", "1.5.0",
                    "--app-id", ChannelSite.appId, "--device-id", "x", "--json",
                ] + more)
        }
        let channel = try install("fresh", "--channel", "file://\(kit)/channels/stable.json").succeeded("installed")
        #expect(channel.string("version") == "1.1.0")
        try install("flat", "--manifest", "file://\(kit)/manifest.json").succeeded("installed")
        try Clientctl.run(["feed", "check", "file://\(kit)/", "--trust", site.pinned, "--json"]).succeeded("good")
        try Clientctl.run(["verify", kit, "--trust", site.trust, "--json"]).succeeded("verified")
    }

    @Test func `a device with the previous release downloads the delta of an offline kit`() throws {
        let site = try Site()
        var generator = SeededGenerator(seed: 1)
        let lines = (0..<800).map { _ in "const v\(UInt64.random(in: .min ... .max, using: &generator)) = 1;\n" }
        func files(_ version: String) -> [String: [UInt8]] {
            Site.client(version).merging(["app/large.js": bytes(lines.joined() + "// \(version)")]) { $1 }
        }
        try site.publish("1.0.0", files("1.0.0"))
        try site.install().succeeded("installed")
        try site.publish("1.1.0", files("1.1.0"))
        let kit = site.folder.file("kit")
        let done = try Clientctl.run(
            ["feed", "export", "--feed", site.feed, "--to", kit, "--trust", site.trust, "--json"]
        ).succeeded("exported")
        #expect(done.strings("releases") == ["1.1.0"])
        let installed = try Clientctl.run([
            "install", "--manifest", "file://\(kit)/manifest.json", "--trust", site.trust, "--store", site.store,
            "--shell-version", "1.5.0", "--json",
        ]).succeeded("installed")
        #expect(installed["route"] == .string("delta"))
        #expect(try site.installed("1.1.0") == files("1.1.0"))
    }

    @Test func `feed export --channel omits the manifest.json of another channel`() throws {
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.publish("1.1.0", ["--no-deltas"], channel: "beta")
        let beta = try export("--channel", "beta").succeeded("exported")
        #expect(beta["offered"] == .null && beta.string("verifiedBy") == "feed")
        #expect(beta.strings("releases") == ["1.1.0"])
        // The folder is not empty the second time.
        let refused = try export().failed(78, "configInvalid")
        #expect(refused.errors.contains("already exists and is not empty, or is a mount point. Name a new folder"))
        try Clientctl.stock(["rm", "-r", kit])
        try Clientctl.stock(["mkdir", kit])
        #expect(try export().succeeded("exported").strings("releases") == ["1.1.0", "1.0.0"])
        #expect(try filesBesideKit.allSatisfy { $0 == "other" || $0.hasPrefix("kit/") })
    }

    @Test func `feed export leaves no files when the kit would be unusable`() throws {
        try export().failed(78, "configInvalid")
        try site.publish("1.0.0", ["--rollout", "100%"])
        try export("--channel", "beta").failed(78, "configInvalid")
        try export("--trust", site.pub("new")).failed(20, "keyUnknown")
        let archive = "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst"
        try Clientctl.stock(["mv", archive, archive + ".away"])
        try export().failed(78, "configInvalid")
        try Clientctl.stock(["sh", "-c", "echo x >'\(archive)'"])
        #expect(try export().failed(23, "digestMismatch").subject?.hasSuffix("client-v1.0.0.tar.zst") == true)
        #expect(try filesBesideKit == ["other"])
        try site.folder.write(bytes("x"), to: "usb/kit")
        try export().failed(78, "configInvalid")
    }

    @Test func `feed export removes the files of a killed run and keeps those of a running one`() throws {
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.folder.writeTree(
            ["usb/.clientctl-kit-dead/a": [1], "usb/.clientctl-kit-live/b": [2]], to: ".")
        let live = open(site.folder.file("usb/.clientctl-kit-live"), O_RDONLY | O_DIRECTORY)
        #expect(flock(live, LOCK_EX | LOCK_NB) == 0)
        try export().succeeded("exported")
        close(live)
        #expect(access(site.folder.file("usb/.clientctl-kit-dead"), F_OK) != 0)
        #expect(access(site.folder.file("usb/.clientctl-kit-live/b"), F_OK) == 0)
    }
}
