import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Keys that only a signing command can use.
@Suite(.ownThread) struct SigningCommandLineTests {
    private let site: ChannelSite

    init() throws { site = try ChannelSite(withRoot: false) }

    /// Returns a signing command like a wrapper around a hardware key.
    private func command(_ name: String) throws -> String {
        let script = """
            #!/bin/sh
            # Signs standard input with the key \(name).
            copy=$(mktemp) && cat >"$copy" && openssl pkeyutl -sign -rawin -inkey '\(site.key(name))' -in "$copy"
            status=$?
            rm -f "$copy"
            exit $status

            """
        let path = try site.folder.write(bytes(script), to: "sign-\(name)")
        try #require(chmod(path, 0o755) == 0)
        return path
    }

    private func publish(_ version: String, _ more: [String]) throws -> Outcome {
        let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
        let isMade = access("\(site.feed)/channels/stable.json", F_OK) == 0
        return try Clientctl.run(
            [
                "publish", source, "--version", version, "--feed", site.feed, "--min-shell", "1.0.0", "--app-id",
                ChannelSite.appId, "--json", "--channel", "stable",
            ] + (isMade ? [] : ["--create"]) + more)
    }

    @Test func `signing commands sign releases, channels and trust roots like key files`() throws {
        try Clientctl.run([
            "trust", "init", "--out", site.trust, "--app-id", ChannelSite.appId, "--root-key", site.pub("root1"),
            "--release-key", site.pub("release"), "--channel-key", site.pub("channel"), "--json",
        ]).succeeded("created")
        let signed = try Clientctl.run([
            "trust", "sign", site.trust, "--sign-command", command("root1"), "--sign-public-key", site.pub("root1"),
            "--json",
        ]).succeeded("signed")
        #expect(signed["complete"] == .bool(true))
        try site.publishRoot().succeeded("published")

        try publish(
            "1.0.0",
            [
                "--sign-command", command("release"), "--sign-public-key", site.pub("release"),
                "--channel-sign-command",
                command("channel"), "--channel-sign-public-key", site.pub("channel"),
            ]
        ).succeeded("published")
        try Clientctl.run([
            "release", "rollout", "--version", "1.0.0", "100%", "--feed", site.feed, "--channel", "stable",
            "--sign-command",
            command("channel"), "--sign-public-key", site.pub("channel"), "--json",
        ]).succeeded("unchanged")
        try Clientctl.run([
            "channel", "renew", "--feed", site.feed, "--channel", "stable", "--sign-command", command("channel"),
            "--sign-public-key", site.pub("channel"), "--json",
        ]).succeeded("changed")
        try site.install("d", trust: site.trust).succeeded("installed")
    }

    @Test func `a failing signing command leaves the feed unchanged, and its errors are printed`() throws {
        try publish("1.0.0", ["--key", site.key("release")]).succeeded("published")
        let before = try TreeSnapshot(of: site.feed)
        let failing = ["--sign-command", "echo no token >&2; exit 3", "--sign-public-key", site.pub("release")]
        let refused = try publish("1.1.0", failing).failed(78, "configInvalid")
        #expect(refused.subject == "signing command")
        #expect(refused.errors.contains("no token\n"))
        // The release can be signed but its channel cannot, so nothing is published.
        try publish(
            "1.1.0",
            [
                "--key", site.key("release"), "--channel-sign-command", "exit 3", "--channel-sign-public-key",
                site.pub("release"),
            ]
        )
        .failed(78, "configInvalid")
        try publish("1.1.0", ["--sign-command", command("new"), "--sign-public-key", site.pub("release")])
            .failed(20, "signatureInvalid")
        try publish("1.1.0", ["--sign-command", command("new")]).failed(64, "usage")
        try publish("1.1.0", ["--sign-command", command("new"), "--sign-public-key", site.key("new")]).failed(
            78, "configInvalid")
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
    }

    @Test func `the configuration accepts signing commands and their public keys`() throws {
        let config = try site.folder.write(
            bytes(
                """
                {"sign-command": ["\(command("release"))", "\(command("new"))"],
                 "sign-public-key": ["\(site.pub("release"))", "\(site.pub("new"))"]}
                """), to: "clientctl.json")
        try publish("1.0.0", ["--config", config]).succeeded("published")
        let shown = try Clientctl.run(["inspect", "\(site.feed)/manifest.json", "--json"])
        #expect(shown["manifest"]?.objectValue?["signatures"]?.arrayValue?.count == 1)
    }

    /// Starts a publisher with a signing command that starts another program and waits. Returns the publisher and the
    /// ID of that program.
    private func waiting(_ word: String, _ scratch: String) throws -> (publisher: Program, started: pid_t) {
        let (idFile, gate) = (site.folder.file("id-\(word)"), site.folder.file("gate"))
        let line = """
            sleep 600 & echo $! >'\(idFile).new' && mv '\(idFile).new' '\(idFile)'; while ! test -e '\(gate)'; do sleep 0.02; done; \
            kill $!; '\(try command("release"))'
            """
        var client = Site.client("1.0.0")
        client["app/shared.js"] = Array("WebAppLocalServer.startupDidComplete()\n".utf8)
        let source = try site.folder.writeTree(client, to: "web")
        let publisher = try Program(
            [
                "env", word, Clientctl.path, "publish", source, "--version", "1.0.0", "--feed", site.feed,
                "--min-shell",
                "1.0.0", "--json", "--sign-command", line, "--sign-public-key", site.pub("release"),
            ], environment: Clientctl.environment(["TMPDIR": scratch]))
        for _ in 0..<6000 where access(idFile, F_OK) != 0 { poll(nil, 0, 10) }
        let id = String(decoding: try contents(ofFile: idFile), as: UTF8.self)
        return (publisher, try #require(pid_t(id.split(separator: "\n")[0])))
    }

    @Test(arguments: [(SIGTERM, "TERM"), (SIGINT, "INT"), (SIGHUP, "HUP")])
    func `a signal to the publisher ends its signing command and removes the message`(signal: Int32, name: String)
        throws
    {
        let scratch = try site.folder.makeFolder("scratch")
        let (publisher, started) = try waiting("--default-signal=\(name)", scratch)
        publisher.send(signal)
        let ending = try publisher.wait()
        #expect(ending.signal == signal && ending.errors.isEmpty, "\(ending.errors)")
        #expect(Program.hasEnded(started))
        #expect(try TreeSnapshot(of: scratch).paths == [])
    }

    @Test func `a signing command continues when SIGHUP is ignored`() throws {
        let (publisher, started) = try waiting("--ignore-signal=HUP", site.folder.makeFolder("scratch"))
        publisher.send(SIGHUP)
        #expect(try publisher.wait(within: .milliseconds(200)) == nil)
        try site.folder.write([], to: "gate")
        Outcome(try publisher.wait()).succeeded("published")
        #expect(Program.hasEnded(started))
    }
}

/// SoftHSM, a PKCS #11 token in files.
private enum SoftHSM {
    static let modules = [
        "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so",
    ]
    static let module = modules.first { access($0, R_OK) == 0 }
    static var isInstalled: Bool {
        let programs = ["softhsm2-util", "pkcs11-tool"]
        return module != nil && programs.allSatisfy { access("/usr/bin/\($0)", X_OK) == 0 }
    }
}

/// A key that never leaves its token.
@Suite(
    .ownThread, .enabled(if: SoftHSM.isInstalled, "no SoftHSM and pkcs11-tool: Scripts/bootstrap --hsm installs them"))
struct SoftHSMTests {
    private let site: ChannelSite
    private let environment: [String: String]
    private let tool: String

    init() throws {
        site = try ChannelSite(withRoot: false)
        try site.folder.makeFolder("tokens")
        let configuration = try site.folder.write(
            bytes("directories.tokendir = \(site.folder.file("tokens"))\nobjectstore.backend = file\n"), to: "hsm.conf")
        // The PIN is not an argument either.
        environment = ["SOFTHSM2_CONF": configuration, "HSM_PIN": "1234"]
        tool = "pkcs11-tool --module \(SoftHSM.module ?? "") --login --pin env:HSM_PIN --token-label release"
        try run("softhsm2-util --init-token --free --label release --pin 1234 --so-pin 1234")
    }

    private func run(_ line: String) throws {
        let ending = try Program.run(["sh", "-c", line], environment: Clientctl.environment(environment))
        try #require(ending.status == 0, "\(line): \(ending.errors)")
    }

    @Test(arguments: [
        ("EC:edwards25519", "TOOL --sign --mechanism EDDSA --id 01"),
        (
            "EC:prime256v1",
            "openssl dgst -sha256 -binary | TOOL --sign --mechanism ECDSA --signature-format openssl --id 01"
        ),
        ("rsa:3072", "TOOL --sign --mechanism SHA256-RSA-PKCS-PSS --id 01"),
    ])
    func `a key in SoftHSM signs releases and channels`(type: String, line: String) throws {
        try run("\(tool) --keypairgen --key-type \(type) --id 01")
        let file = site.folder.file("token.pub")
        try run("\(tool) --read-object --type pubkey --id 01 -o \(file)")
        // Some versions write DER, some write PEM.
        try run(
            "grep -q BEGIN \(file) || openssl pkey -pubin -inform DER -in \(file) -out \(file).pem; "
                + "test -e \(file).pem || cp \(file) \(file).pem")
        let command = line.replacing("TOOL", with: tool)
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let signing = ["--sign-command", command, "--sign-public-key", "\(file).pem", "--json"]
        try Clientctl.run(
            [
                "publish", source, "--version", "1.0.0", "--feed", site.feed, "--min-shell", "1.0.0", "--channel",
                "stable", "--create",
            ]
                + signing, environment: environment
        ).succeeded("published")
        try Clientctl.run(
            ["release", "pause", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable"] + signing,
            environment: environment
        ).succeeded("changed")
        try Clientctl.run(
            ["release", "resume", "--version", "1.0.0", "--feed", site.feed, "--channel", "stable"] + signing,
            environment: environment
        ).succeeded("changed")
        try Clientctl.run([
            "install", "--channel", "\(site.feed)/channels/stable.json", "--trust", "\(file).pem", "--store",
            site.folder.file("store"), "--shell-version", "1.0.0", "--json",
        ]).succeeded("installed")
    }

    /// Runs the commands of `Guide/guides/keys.md`.
    @Test(arguments: [
        (
            "EC:prime256v1",
            "openssl dgst -sha256 -binary | TOOL --sign --mechanism ECDSA --signature-format openssl --id 01"
        ),
        ("rsa:2048", "TOOL --sign --mechanism SHA256-RSA-PKCS-PSS --id 01"),
    ])
    func `a key in SoftHSM signs a channel file of 100 kB`(type: String, line: String) throws {
        try run("\(tool) --keypairgen --key-type \(type) --id 01")
        let file = site.folder.file("token")
        try run("\(tool) --read-object --type pubkey --id 01 -o \(file).der")
        try run("openssl pkey -pubin -inform DER -in \(file).der -out \(file).pem")
        try site.publish("1.0.0").succeeded("published")
        // Recall reasons have no length limit.
        for number in 1...3 {
            let reason = String(repeating: "n", count: 100_000)
            try site.release("recall", "--version", "1.0.0", "--reason", "\(number)\(reason)").succeeded("changed")
        }
        let renewed = try Clientctl.run(
            [
                "channel", "renew", "--feed", site.feed, "--channel", "stable", "--trust", site.pub("channel"),
                "--sign-command", line.replacing("TOOL", with: tool), "--sign-public-key", "\(file).pem", "--json",
                "--devices-trust-new-key",
            ], environment: environment
        ).succeeded("changed")
        #expect(renewed["sequence"] == .integer(5))
        #expect(try contents(ofFile: "\(site.feed)/channels/stable.json").count > 130_000)
    }

    @Test func `publish explains raw ECDSA signatures of a PKCS 11 tool`() throws {
        try run("\(tool) --keypairgen --key-type EC:prime256v1 --id 01")
        let file = site.folder.file("token.pub")
        try run(
            "\(tool) --read-object --type pubkey --id 01 -o \(file).der; openssl pkey -pubin -inform DER -in \(file).der -out \(file)"
        )
        let source = try site.folder.writeTree(Site.client("1.0.0"), to: "web")
        let refused = try Clientctl.run(
            [
                "publish", source, "--version", "1.0.0", "--feed", site.feed, "--min-shell", "1.0.0", "--json",
                "--sign-command", "openssl dgst -sha256 -binary | \(tool) --sign --mechanism ECDSA --id 01",
                "--sign-public-key",
                file,
            ], environment: environment
        ).failed(20, "signatureInvalid")
        #expect(refused.errors.contains("--signature-format openssl"))
    }
}
