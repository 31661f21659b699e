import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("verify --store --trust", .ownThread) struct SignedStoreTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
    }

    private func verify(_ more: String...) throws -> Outcome {
        try Clientctl.run(["verify", "--store", site.store, "--json"] + more)
    }

    /// Replaces an installed file with other bytes.
    private func change(_ path: String, to content: [UInt8]) throws {
        let file = "\(site.store)/clients/v1.0.0/\(path)"
        try Clientctl.stock(["rm", "-f", file])
        try content.withUnsafeBytes { bytes in
            let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL, 0o644)
            try #require(write(descriptor, bytes.baseAddress, bytes.count) == bytes.count)
            close(descriptor)
        }
    }

    @Test func `verify --store --trust accepts clients that a trusted key signed`() throws {
        let told = try verify("--trust", site.trust).succeeded("verified")
        #expect(told.strings("signed") == ["v1.0.0"])
        #expect(try verify().succeeded("verified").strings("signed") == [])
    }

    @Test func `verify --store --trust rejects another key with status 20`() throws {
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--json"]).succeeded()
        try verify("--trust", site.folder.file("other.pub.pem")).failed(20, "keyUnknown")
    }

    @Test func `verify --store --trust rejects files that were changed together with their receipt`() throws {
        let old = try HandmadeRelease.sha256("\(site.store)/clients/v1.0.0/app/shared.js")
        try change("app/shared.js", to: bytes("export const shared = 2\n"))
        let new = try HandmadeRelease.sha256("\(site.store)/clients/v1.0.0/app/shared.js")
        try verify().failed(33, "storeDamaged")
        try Clientctl.stock(["sh", "-c", "sed -i s/\(old)/\(new)/ \"$1\"/receipts/*", "sh", site.store])
        try verify().succeeded("verified")
        let changed = try verify("--trust", site.trust).failed(23, "digestMismatch")
        #expect(changed.subject == "v1.0.0")
    }

    @Test func `verify --store --trust rejects a link instead of a file`() throws {
        try Clientctl.stock([
            "sh", "-c", "cd \"$1\" && ln -sf index.html app/shared.js", "sh", "\(site.store)/clients/v1.0.0",
        ])
        try verify("--trust", site.trust).failed(23, "digestMismatch")
    }

    @Test func `verify --store --trust follows the trust roots that the store has`() throws {
        let site = try ChannelSite()
        try site.publish("1.0.0", ["--rollout", "100%"])
        try Clientctl.run([
            "trust", "rotate", site.trust, "--old", site.pub("release"), "--new", site.pub("new"), "--json",
        ]).succeeded("drafted")
        try site.signRoot("root1", "root2")
        try site.publishRoot().succeeded("published")
        try site.publish("1.1.0", ["--rollout", "100%", "--devices-trust-new-key"], key: "new").succeeded("published")
        try site.install("kiosk").succeeded("installed")
        let store = ["verify", "--store", site.folder.file("store-kiosk"), "--json"]
        try Clientctl.run(store + ["--trust", site.pinned]).succeeded("verified")
        try Clientctl.run(store + ["--trust", site.pub("release")]).failed(20, "keyUnknown")
    }

    @Test func `verify --store --trust rejects flags that it would ignore`() throws {
        try verify("--rebuild", site.folder.file("web-1.0.0")).failed(64, "usage")
        let empty = try Site()
        try empty.publish("1.0.0")
        #expect(try empty.install(shell: "0.9.0").outcome == "incompatible")
        let none = try Clientctl.run(["verify", "--store", empty.store, "--trust", empty.trust, "--json"])
        #expect(none.status == 64 || none.status == 78, "\(none.errors)")
    }
}
