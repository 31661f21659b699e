import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Testing

@Suite(.ownThread) struct KeysTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func generate(_ more: [String], environment: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(
            ["keys", "generate", "--out", folder.file("k"), "--json"] + more, environment: environment)
    }

    private func show(_ file: String, environment: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(["keys", "show", folder.file(file), "--json"], environment: environment)
    }

    @Test(arguments: [("ed25519", 256), ("ecdsa-p256", 256), ("rsa-pss", 3072)])
    func `keys generate writes a private key pair that openssl reads with the same key ID`(algorithm: String, bits: Int)
        throws
    {
        let made = try generate(["--algorithm", algorithm]).succeeded()
        #expect(made.string("algorithm") == algorithm)
        #expect(made["encrypted"] == .bool(false))
        #expect(made.string("key") == folder.file("k.key.pem"))
        #expect(made.string("publicKey") == folder.file("k.pub.pem"))

        let tree = try TreeSnapshot(of: folder.path)
        #expect(tree.paths == ["k.key.pem", "k.pub.pem"])
        #expect(tree.entries["k.key.pem"]?.mode == 0o100600)
        #expect(tree.entries["k.pub.pem"]?.mode == 0o100644)

        let ofPublic = try show("k.pub.pem").succeeded()
        let ofPrivate = try show("k.key.pem").succeeded()
        #expect(ofPublic["private"] == .bool(false))
        #expect(ofPrivate["private"] == .bool(true))
        for shown in [ofPublic, ofPrivate] {
            #expect(shown.string("algorithm") == algorithm)
            #expect(shown["bits"] == .integer(bits))
            #expect(shown.string("keyId") == made.string("keyId"))
        }

        // `openssl` computes the same key ID, and derives the same public key from the private key.
        let id = try Clientctl.stock([
            "sh", "-c", "openssl pkey -pubin -in \"$1\" -outform DER | sha256sum", "sh", folder.file("k.pub.pem"),
        ])
        #expect(id.prefix(64) == made.string("keyId") ?? "")
        let half = try Clientctl.stock(["openssl", "pkey", "-in", folder.file("k.key.pem"), "-pubout"])
        #expect(bytes(half) == tree.entries["k.pub.pem"]?.content)
        #expect(tree.entries["k.key.pem"]?.content.starts(with: bytes("-----BEGIN PRIVATE KEY-----\n")) == true)
    }

    @Test func `a key of the wrong half is refused with the name of the other file`() throws {
        try generate([]).succeeded()
        let (own, other) = (folder.file("k.key.pem"), folder.file("k.pub.pem"))
        let source = try folder.writeTree(["index.html": bytes("x")], to: "web")
        let signed = try Clientctl.run(
            ["publish", source, "--version", "1.0.0", "--feed", folder.file("feed"), "--key", other, "--json"])
        #expect(signed.failed(78, "configInvalid").errors.contains("Give \(own)."), "\(signed.errors)")
        let trusted = try Clientctl.run([
            "install", "--manifest", "https://x.test/manifest.json", "--trust", own, "--store", folder.file("store"),
            "--json",
        ])
        #expect(trusted.failed(78, "configInvalid").errors.contains("Give \(other)."), "\(trusted.errors)")
    }

    @Test(arguments: ["k.key.pem", "k.pub.pem"])
    func `keys generate never overwrites an existing file`(name: String) throws {
        try folder.write(bytes("precious"), to: name)
        let before = try TreeSnapshot(of: folder.path)
        let refused = try generate([]).failed(78, "configInvalid")
        #expect(refused.subject == folder.file(name))
        #expect(try TreeSnapshot(of: folder.path).changes(since: before) == [])
    }

    @Test func `keys generate never overwrites an existing key pair`() throws {
        try generate([]).succeeded()
        let before = try TreeSnapshot(of: folder.path)
        try generate(["--algorithm", "ecdsa-p256"]).failed(78, "configInvalid")
        #expect(try TreeSnapshot(of: folder.path).changes(since: before) == [])
    }

    @Test func `encrypts a key with a passphrase from a file, and openssl decrypts it`() throws {
        let secret = try folder.write(bytes("correct horse\n"), to: "secret")
        let made = try generate(["--passphrase-file", secret]).succeeded()
        #expect(made["encrypted"] == .bool(true))
        let key = try contents(ofFile: folder.file("k.key.pem"))
        #expect(key.starts(with: bytes("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")))
        let half = try Clientctl.stock([
            "openssl", "pkey", "-in", folder.file("k.key.pem"), "-passin", "file:\(secret)", "-pubout",
        ])
        #expect(bytes(half) == (try contents(ofFile: folder.file("k.pub.pem"))))
        let show = ["keys", "show", folder.file("k.key.pem"), "--passphrase-file", secret, "--json"]
        #expect(try Clientctl.run(show).succeeded().string("keyId") == made.string("keyId"))
        try Clientctl.stock(["chmod", "644", secret])
        try Clientctl.run(show).failed(31, "permissionDenied")
    }

    @Test func `reads the passphrases of several keys from one pipe`() throws {
        for name in ["k", "c"] {
            try Clientctl.run(
                ["keys", "generate", "--out", folder.file(name), "--json"],
                environment: Clientctl.environment(["CLIENTCTL_PASSPHRASE": "eins"])
            ).succeeded()
        }
        let web = try folder.writeTree(Site.client("1.0.0"), to: "web")
        let line =
            "echo eins | \"$0\" publish \"$1\" --version 1.0.0 --min-shell 1.0.0 --feed \"$2\" --key \"$3\" "
            + "--channel stable --create --channel-key \"$4\" --passphrase-file /dev/stdin"
        let ending = try Program.run(
            [
                "sh", "-c", line, Clientctl.path, web, folder.file("feed"), folder.file("k.key.pem"),
                folder.file("c.key.pem"),
            ],
            environment: Clientctl.environment(["CLIENTCTL_PUBLISHER_STATE": folder.file("state")]))
        #expect(ending.status == 0, "\(ending.errors)")
    }

    @Test func `names the encrypted key when no passphrase can be asked for`() throws {
        try generate([], environment: ["CLIENTCTL_PASSPHRASE": "eins"]).succeeded()
        let refused = try show("k.key.pem").failed(78, "configInvalid")
        #expect(refused.errors.contains("\(folder.file("k.key.pem")) is encrypted"), "\(refused.errors)")
        let asked = try Clientctl.run(["keys", "generate", "--out", folder.file("n"), "--prompt", "--json"])
            .failed(78, "configInvalid")
        #expect(!asked.errors.contains("encrypted"), "\(asked.errors)")
    }

    @Test func `encrypts and decrypts a key with a passphrase from the environment`() throws {
        let secret = ["CLIENTCTL_PASSPHRASE": "battery staple"]
        let made = try generate([], environment: secret).succeeded()
        #expect(made["encrypted"] == .bool(true))
        #expect(try show("k.key.pem", environment: secret).succeeded().string("keyId") == made.string("keyId"))
    }

    @Test func `keys passwd sets, changes and removes a passphrase without changing the key`() throws {
        let id = try #require(try generate([]).succeeded().string("keyId"))
        let (one, two) = (try folder.write(bytes("one\n"), to: "one"), try folder.write(bytes("two\n"), to: "two"))
        let key = folder.file("k.key.pem")
        func change(_ more: String...) throws -> Outcome {
            try Clientctl.run(["keys", "passwd", key, "--json"] + more)
        }
        let plain = try contents(ofFile: key)
        for (more, encrypted) in [
            (["--new-passphrase-file", one], true),
            (["--passphrase-file", one, "--new-passphrase-file", two], true),
            (["--passphrase-file", two, "--no-passphrase"], false),
        ] {
            let changed = try Clientctl.run(["keys", "passwd", key, "--json"] + more).succeeded()
            #expect(changed.string("keyId") == id)
            #expect(changed["encrypted"] == .bool(encrypted))
            let last = encrypted ? more.last ?? "" : two
            #expect(
                try Clientctl.run(["keys", "show", key, "--passphrase-file", last, "--json"]).string("keyId") == id)
            #expect(try TreeSnapshot(of: folder.path).entries["k.key.pem"]?.mode == 0o100600)
        }
        #expect(try contents(ofFile: key) == plain)

        // Rejected commands leave the file unchanged.
        try change("--new-passphrase-file", one).succeeded()
        try folder.write([], to: "empty")
        try Clientctl.stock(["ln", "-s", key, folder.file("link")])
        let before = try TreeSnapshot(of: folder.path)
        try change("--passphrase-file", two, "--no-passphrase").failed(78, "configInvalid")
        try change("--passphrase-file", one, "--new-passphrase-file", folder.file("empty")).failed(78, "configInvalid")
        try change("--passphrase-file", one).failed(64, "usage")
        try change("--passphrase-file", one, "--no-passphrase", "--new-passphrase-file", two).failed(64, "usage")
        try Clientctl.run(
            ["keys", "passwd", folder.file("link"), "--passphrase-file", one, "--no-passphrase", "--json"]
        ).failed(78, "configInvalid")
        #expect(try TreeSnapshot(of: folder.path).changes(since: before) == [])
    }

    @Test(arguments: [["CLIENTCTL_PASSPHRASE": "wrong"], [:]])
    func `rejects an encrypted key without the right passphrase`(environment: [String: String]) throws {
        try generate([], environment: ["CLIENTCTL_PASSPHRASE": "right"]).succeeded()
        try show("k.key.pem", environment: environment).failed(78, "configInvalid")
    }

    @Test func `keys generate rejects an unknown algorithm`() throws {
        try generate(["--algorithm", "dsa"]).failed(64, "usage")
        #expect(try TreeSnapshot(of: folder.path).paths == [])
    }

    @Test(arguments: [
        ["-algorithm", "ED25519"], ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"],
        ["-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"],
        ["-algorithm", "ED25519", "-aes-256-cbc", "-pass", "pass:from openssl"],
    ])
    func `publishes with and trusts keys that openssl created`(options: [String]) throws {
        let site = try Site()
        let key = site.folder.file("theirs.pem")
        let isEncrypted = options.contains("-pass")
        try Clientctl.stock(["openssl", "genpkey", "-quiet", "-out", key] + options)
        try Clientctl.stock(["chmod", "600", key])
        let trust = site.folder.file("theirs.pub.pem")
        try Clientctl.stock(
            ["openssl", "pkey", "-in", key, "-pubout", "-out", trust]
                + (isEncrypted ? ["-passin", "pass:from openssl"] : []))
        let published = try site.publish(
            "1.0.0", nil, ["--key", key],
            environment: isEncrypted ? ["CLIENTCTL_PASSPHRASE": "from openssl"] : [:])
        #expect(published.string("keyId") != site.keyId)
        try site.install(nil, ["--trust", trust]).succeeded("installed")
        #expect(try site.installed("1.0.0") == Site.client("1.0.0"))
        try site.leavingStoreAlone { try site.install().failed(20, "keyUnknown") }
    }
}
