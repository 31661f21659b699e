import BundleTestTraits
import BundleTesting
import Testing

/// Releases that stock tools create or check, as the wire format promises.
@Suite(.ownThread) struct StockToolsTests {
    private let site: Site
    private let handmade: HandmadeRelease

    init() throws {
        site = try Site()
        handmade = HandmadeRelease(site: site)
    }

    /// The canonical tar from Python's `tarfile`, which leaves fields empty that GNU tar and `publish` fill with
    /// zeros.
    private static let python = """
        import os, sys, tarfile
        tar = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT)
        os.chdir(sys.argv[1])
        for path in sorted(os.path.relpath(os.path.join(at, name)) for at, _, names in os.walk(".") for name in names):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = os.path.getsize(path), 0o644
            tar.addfile(entry, open(path, "rb"))
        tar.close()
        """

    /// Paths on both sides of the ustar limits, in an order that sorting by folder would change.
    private static let awkward: [String: [UInt8]] = Site.client("1.0.0").merging([
        "a-b/x": bytes("1"), "a/x": bytes("2"), "a.x": bytes("3"), "a0": [UInt8](repeating: 7, count: 512),
        String(repeating: "d", count: 99) + "/" + String(repeating: "f", count: 60): bytes("split"),
        String(repeating: "d", count: 99) + "/" + String(repeating: "sub/", count: 10) + "file": bytes("split too"),
        String(repeating: "n", count: 100): bytes("whole"),
    ]) { $1 }

    @Test func `publish writes the same tar as GNU tar with the guide's options`() throws {
        let published = try site.publish("1.0.0", Self.awkward, ["--format", "tar"])
        let tar = site.folder.file("by-readme.tar")
        let recipe = """
            cd "$1" && find . -type f -printf '%P\\n' | LC_ALL=C sort |
              tar --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 -b1 -cf "$2" --verbatim-files-from -T -
            """
        try Clientctl.stock(["sh", "-c", recipe, "sh", site.folder.file("web-1.0.0"), tar])
        #expect(try HandmadeRelease.sha256(tar) == published.string("contentSha256"))
    }

    @Test(arguments: ["--zstd", "--gzip", "--format=pax", "--format=gnu", "--format=ustar"])
    func `installs a release of tar and openssl with only the required fields`(option: String) throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        try Clientctl.stock(["tar", option, "-C", source, "-cf", site.folder.file("client"), "."])
        let manifest = try handmade.write(handmade.required("1.0.0", archive: "client"), to: "manifest.json")
        let installed = try site.install(manifest).succeeded("installed")
        #expect(installed.string("version") == "1.0.0")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
        try Clientctl.run(["verify", manifest, "--trust", site.trust, "--rebuild", source, "--json"])
            .succeeded("verified")
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded()
    }

    private func complete(_ version: String, _ source: String) throws -> [String: String] {
        let archive = site.folder.file("client.tar.zst")
        try Clientctl.stock([
            "sh", "-c", "python3 -c \"$1\" \"$2\" | zstd -q -f -o \"$3\"", "sh", Self.python, source, archive,
        ])
        let content = try Clientctl.stock(["sh", "-c", "zstd -dc \"$1\" | sha256sum", "sh", archive])
        let client = Site.client(version)
        return try handmade.required(version, archive: "client.tar.zst").merging([
            "schema": "1", "appId": "com.example.kiosk", "size": "\(try contents(ofFile: archive).count)",
            "contentSha256": String(content.prefix(64)),
            "installedSize": "\(client.values.reduce(0) { $0 + $1.count })", "fileCount": "\(client.count)",
            "maxShellVersion": "2.0.0", "createdAt": "2025-01-09T12:00:00Z", "keyId": site.keyId,
        ]) { $1 }
    }

    @Test func `installs a handmade release with every field and enforces each signed number`() throws {
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let fields = try complete("1.0.0", source)
        let device = ["--app-id", "com.example.kiosk"]
        let wrong: [(String, String, String)] = [
            ("contentSha256", String(repeating: "0", count: 64), "digestMismatch"),
            ("fileCount", "4", "sizeMismatch"), ("fileCount", "6", "sizeMismatch"),
            ("installedSize", "1000", "sizeMismatch"), ("size", "1000", "sizeMismatch"),
        ]
        for (name, value, code) in wrong {
            let manifest = try handmade.write(fields.merging([name: value]) { $1 }, to: "wrong.json")
            let refused = try site.install(manifest, device).failed(23, code, "\(name)")
            #expect(try site.list().strings("versions") == ["embedded"], "\(name) \(refused)")
        }
        let manifest = try handmade.write(fields, to: "manifest.json")
        try site.install(manifest, device).succeeded("installed")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
        try Clientctl.run(["verify", "--store", site.store, "--json"]).succeeded()
    }

    @Test(arguments: [("ecdsa-p256", HandmadeRelease.ecdsa), ("rsa-pss", HandmadeRelease.rsaPSS)])
    func `accepts openssl dgst signatures for other algorithms`(algorithm: String, command: String) throws {
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--algorithm", algorithm, "--json"])
            .succeeded()
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let manifest = try handmade.write(
            try complete("1.0.0", source).filter { $0.key != "keyId" }, to: "manifest.json",
            key: site.folder.file("other.key.pem"), signing: command)
        try site.install(manifest, ["--trust", site.folder.file("other.pub.pem")]).succeeded("installed")
    }

    /// Builds the statement of the manifest at `$1` from its text. Writes the statement and the signature beside it.
    private static let unpack = """
        import base64, json, sys
        manifest = json.load(open(sys.argv[1]))
        names = sys.argv[2].split(",")
        with open(sys.argv[1] + ".statement", "wb") as file:
            file.write(b"swap-clients-manifest-v1\\n")
            for name in names:
                file.write(f"{name}={manifest.get(name, '')}\\n".encode())
        open(sys.argv[1] + ".sig", "wb").write(base64.b64decode(manifest["signature"], validate=True))
        print(manifest["sha256"] + "  " + manifest["url"])
        """

    @Test(arguments: [
        ("ed25519", "openssl pkeyutl -verify -rawin -pubin -inkey \"$1\" -sigfile \"$2.sig\" -in \"$2.statement\""),
        ("ecdsa-p256", "openssl dgst -sha256 -verify \"$1\" -signature \"$2.sig\" \"$2.statement\""),
        (
            "rsa-pss",
            "openssl dgst -sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32 -verify \"$1\" "
                + "-signature \"$2.sig\" \"$2.statement\""
        ),
    ])
    func `openssl and sha256sum verify a published release`(algorithm: String, command: String) throws {
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--algorithm", algorithm, "--json"])
            .succeeded()
        let published = try site.publish(
            "1.0.0", nil,
            ["--key", site.folder.file("other.key.pem"), "--app-id", "com.example.kiosk", "--max-shell", "3.0.0"])
        for manifest in [site.manifest, "\(site.feed)/releases/v1.0.0/manifest.json"] {
            let sum = try Clientctl.stock([
                "python3", "-c", Self.unpack, manifest, HandmadeRelease.signedFields.joined(separator: ","),
            ])
            try Clientctl.stock(["sh", "-c", command, "sh", site.folder.file("other.pub.pem"), manifest])
            let beside = manifest.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
            try Clientctl.stock(["sh", "-c", "printf %s \"$1\" | sha256sum -c --strict", "sh", sum], in: beside)
            // The same check must fail for a changed statement, otherwise it shows nothing.
            try Clientctl.stock(["sed", "-i", "s/^version=.*/version=9.9.9/", manifest + ".statement"])
            try Clientctl.stock(["sh", "-c", command, "sh", site.folder.file("other.pub.pem"), manifest], expecting: 1)
        }
        let content = try Clientctl.stock([
            "sh", "-c", "zstd -dc \"$1\" | sha256sum", "sh", "\(site.feed)/releases/v1.0.0/client-v1.0.0.tar.zst",
        ])
        #expect(content.prefix(64) == published.string("contentSha256") ?? "")
    }
}
