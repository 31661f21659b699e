import BundleCore
import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Folders that `publish` rejects before it signs anything. The feed stays unchanged, byte for byte.
@Suite(.ownThread) struct PublishRefusalTests {
    private let site: Site
    private let source: String

    init() throws {
        site = try Site()
        try site.publish("1.0.0")
        source = try site.folder.writeTree(Site.client("2.0.0"), to: "web")
    }

    private func refused(
        _ status: Int32, _ code: String, version: String = "2.0.0", _ more: [String] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Outcome {
        let before = try TreeSnapshot(of: site.feed)
        let outcome = try site.publish(source, as: version, more)
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [], sourceLocation: sourceLocation)
        return outcome.failed(status, code, sourceLocation: sourceLocation)
    }

    @Test func `publish rejects a folder without index.html`() throws {
        try Clientctl.stock(["mv", "\(source)/index.html", "\(source)/app/index.html"])
        #expect(try refused(24, "archiveRejected").subject == "no-index")
    }

    @Test func `publish rejects a missing folder`() throws {
        let file = try site.publish("\(source)/index.html", as: "2.0.0").failed(78, "configInvalid")
        #expect(file.errors.contains("\(source)/index.html is a file. Name the folder that contains it."))
        try Clientctl.stock(["rm", "-r", source])
        #expect(try refused(78, "configInvalid").errors.contains("\(source) does not exist. Check the path."))
    }

    @Test(arguments: ["index.html", "/etc/passwd", "nowhere"])
    func `publish rejects a symbolic link`(target: String) throws {
        try #require(symlink(target, "\(source)/app/link") == 0)
        #expect(try refused(24, "archiveRejected").subject == "type-symlink: app/link")
    }

    @Test func `publish rejects a symbolic link to a folder`() throws {
        try #require(symlink("app", "\(source)/linked") == 0)
        #expect(try refused(24, "archiveRejected").subject == "type-symlink: linked")
    }

    @Test func `publish rejects a pipe without waiting for its writer`() throws {
        try #require(mkfifo("\(source)/app/pipe", 0o644) == 0)
        #expect(try refused(24, "archiveRejected").subject == "type-special: app/pipe")
    }

    @Test(arguments: ["index.html", "app"])
    func `publish rejects files that the publisher may not read`(name: String) throws {
        try #require(chmod("\(source)/\(name)", 0) == 0)
        var command = [
            Clientctl.path, "publish", source, "--version", "2.0.0", "--feed", site.feed, "--key", site.key,
            "--min-shell", "1.0.0", "--json",
        ]
        if Clientctl.isRoot {
            // Root may read any file, so the test removes that privilege.
            command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"] + command
        }
        let before = try TreeSnapshot(of: site.feed)
        let ending = try Program.run(command, environment: Clientctl.environment())
        #expect(try TreeSnapshot(of: site.feed).changes(since: before) == [])
        let outcome = Outcome(ending).failed(31, "permissionDenied")
        #expect(outcome.subject?.hasSuffix(name) == true)
    }

    @Test(arguments: ["a\nb", "a\\b", "a\u{1B}[2Jb", "\u{7F}", "\u{202E}cod", "a\u{200B}b"])
    func `publish rejects names that installers reject`(name: String) throws {
        try site.folder.write(bytes("x"), to: "web/app/\(name)")
        let subject = try refused(24, "archiveRejected").subject ?? ""
        #expect(subject.contains(": app/"))
        #expect(!subject.unicodeScalars.contains { $0.properties.generalCategory == .control })
    }

    @Test func `publish rejects a name that is not UTF-8`() throws {
        try Clientctl.stock(["sh", "-c", "printf x > \"$(printf 'a\\377b')\""], in: source)
        _ = try refused(24, "archiveRejected")
    }

    @Test func `publish rejects a name that archives would normalize`() throws {
        _ = try site.folder.writeTree(["app/cafe\u{301}.js": bytes("1"), "app/th\u{e9}.js": bytes("1")], to: "web")
        let refusal = try refused(24, "archiveRejected")
        #expect(refusal.subject?.utf8.elementsEqual("name-form: app/cafe\u{301}.js".utf8) == true)
        try Clientctl.stock(["rm", "\(source)/app/cafe\u{301}.js"])
        try site.publish(source, as: "2.0.0").succeeded("published")
        try Clientctl.run(["verify", site.manifest, "--trust", site.trust, "--rebuild", source, "--json"])
            .succeeded("verified")
    }

    @Test func `publish reports the folder, all colliding names and the remedy`() throws {
        _ = try site.folder.writeTree(
            ["App/x.js": bytes("1"), "img/a.svg": bytes("1"), "img/A.svg": bytes("1")], to: "web")
        let twins = try refused(24, "archiveRejected")
        #expect(
            twins.errors.contains(
                "has files or folders whose names differ only in case: App, app, img/A.svg, img/a.svg. Some devices")
        )
        try Clientctl.stock(["rm", "-r", "\(source)/App", "\(source)/img"])
        for name in ["caf\u{E9}.js", "cafe\u{301}.js"] { try site.folder.write(bytes("1"), to: "web/\(name)") }
        #expect(try refused(24, "archiveRejected").errors.contains("differ only in case or Unicode form: "))
        try Clientctl.stock(["rm", "\(source)/cafe\u{301}.js"])
        try Clientctl.stock(["mv", "\(source)/index.html", "\(source)/Index.htm"])
        #expect(try refused(24, "archiveRejected").errors.contains("\(source) has no index.html at its top"))
        #expect(try refused(24, "archiveRejected").errors.contains("It has Index.htm"))
        #expect(
            try refused(64, "usage", ["--min-shell", "1.0"]).errors.hasPrefix("error[usage]: --min-shell: the version"))
        let many = try site.folder.write([UInt8](repeating: 0x61, count: 100_000), to: "notes")
        #expect(
            try refused(78, "configInvalid", ["--notes", many]).errors.contains(
                "The release notes \(many) have 100.0 kB"))
    }

    @Test(arguments: [("app/Main.js", "app/main.js"), ("é.js", "e\u{301}.js"), ("App/x.js", "app/y.js")])
    func `publish rejects names that differ only in case or Unicode normalization`(one: String, other: String) throws {
        for path in [one, other] { try site.folder.writeTree([path: bytes(path)], to: "web") }
        #expect(try refused(24, "archiveRejected").subject?.contains(": ") == true)
    }

    private static let portable: [UInt8] =
        bytes("MZ") + [UInt8](repeating: 0, count: 58) + [0x40, 0, 0, 0] + bytes("PE") + [0, 0] + bytes("rest")

    @Test(arguments: [
        [0x7F] + bytes("ELF rest"), [0xCF, 0xFA, 0xED, 0xFE, 7, 0, 0, 1], [0xFE, 0xED, 0xFA, 0xCE, 0, 0, 0, 1],
        [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 2], portable,
    ])
    func `publish rejects a native executable`(content: [UInt8]) throws {
        try site.folder.write(content, to: "web/app/tool")
        #expect(try refused(24, "archiveRejected").subject == "native-code: app/tool")
    }

    @Test(arguments: [
        (
            "release.key.pem",
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDuSnrNTLiNXTqeTObHmWNLvZMFE6vRRwBdlT+bwpAn6\n"
        ),
        (
            "both.pem",
            "# mine\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n"
                + "MHcCAQEEIHD0ZJt9pTn0sFOuU0BcgYc0RPWO3mjh7c3gSeCL8hzroAoGCCqGSM49\n"
        ),
        (
            "img/id",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2\n"
        ),
        ("age.txt", "AGE-SECRET-KEY-1ABC\n"),
        ("minisign.key", "untrusted comment: minisign encrypted secret key\n"),
    ])
    func `publish rejects a private key in spite of --allow`(name: String, content: String) throws {
        try site.folder.write(bytes(content), to: "web/\(name)")
        let refusal = try refused(24, "archiveRejected", ["--allow", name, "--allow", "*"])
        #expect(refusal.subject == "private-key: \(name)")
        #expect(!refusal.errors.contains("--allow"))
        try site.publish(source, as: "2.0.0", ["--exclude", name]).succeeded("published")
    }

    @Test func `publishes a script with a private key only if it is allowed`() throws {
        let key = "-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIDuSnrNTLiNXTqeTObHmWNLvZMFE6vRRwBdlT+bwpAn6\\n"
        try site.folder.write(bytes("const key = '\(key)'"), to: "web/app.js")
        #expect(try refused(24, "archiveRejected").subject == "private-key: app.js")
        try site.publish(source, as: "2.0.0", ["--allow", "app.js"]).succeeded("published")
    }

    @Test func `publish rejects the user's credentials file and accepts a home folder without one`() throws {
        try site.publish(source, as: "2.0.0", environment: ["HOME": source]).succeeded("published")
        let line =
            "cd \"$1\" && \"$0\" publish . --version 2.1.0 --min-shell 1.0.0 --feed \"$2\" --key - --json <\"$3\""
        let ending = try Program.run(
            ["bash", "-c", line, Clientctl.path, source, site.feed, site.key], environment: Clientctl.environment())
        Outcome(ending).succeeded("published")
        _ = try site.folder.writeTree([".aws/credentials": bytes("[default]\n")], to: "web")
        let refusal = try site.publish(source, as: "2.2.0", ["--allow", ".aws"], environment: ["HOME": source])
            .failed(24, "archiveRejected")
        #expect(refusal.subject == "secrets: .aws/credentials")
    }

    @Test func `publish rejects a file that the command reads a secret from in spite of --allow`() throws {
        let words = try site.folder.write(bytes("open sesame\n"), to: "web/app/words.txt")
        try #require(chmod(words, 0o600) == 0)
        let refusal = try refused(24, "archiveRejected", ["--passphrase-file", words, "--allow", "*"])
        #expect(refusal.subject == "secrets: app/words.txt")
    }

    @Test func `publish rejects an --archive-maps folder inside the feed or the client`() throws {
        for place in ["feed/maps", "web/maps"] {
            let folder = site.folder.file(place)
            #expect(try refused(78, "configInvalid", ["--archive-maps", folder]).subject == folder)
        }
        try site.publish(source, as: "2.0.0", ["--archive-maps", site.folder.file("web/maps"), "--exclude", "maps"])
            .succeeded("published")
    }

    @Test(arguments: [
        (".Env", "secrets"), ("prod.env", "secrets"), (".envrc", "secrets"), (".env~", "secrets"),
        (".git-credentials", "secrets"), ("keys/id_rsa", "secrets"), ("AuthKey.p8", "secrets"),
        (".docker/config.json", "secrets"), (".vscode/sftp.json", "secrets"),
        ("NODE_MODULES/a.js", "dependencies"), (".GIT/HEAD", "repository"),
        ("old/releases/v1.0.0/client-v1.0.0.zip", "feed"),
    ])
    func `publish rejects files with the name of a secret or a foreign file`(name: String, rule: String) throws {
        _ = try site.folder.writeTree([name: bytes("1")], to: "web")
        #expect(try refused(24, "archiveRejected").subject?.hasPrefix("\(rule): ") == true)
        let first = String(name.split(separator: "/").first ?? "")
        try site.publish(source, as: "2.0.0", ["--allow", first]).succeeded("published")
    }

    @Test(arguments: [
        ("docs/keys.html", "<pre>\n-----BEGIN PRIVATE KEY-----\n"),
        (".environment", "1"), ("releases/v1/index.html", "1"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n"), ("Main.class", "\u{0}"), (".well-known/x", "env"),
    ])
    func `publish accepts files that only resemble a secret`(name: String, content: String) throws {
        let java: [UInt8] = [0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, 61, 0, 1]
        _ = try site.folder.writeTree([name: name == "Main.class" ? java : bytes(content)], to: "web")
        try site.publish(source, as: "2.0.0").succeeded("published")
    }

    @Test func `publish names each unwanted file of a build folder once`() throws {
        let tool = [0x7F] + bytes("ELF rest of it")
        _ = try site.folder.writeTree(
            [
                ".env": bytes("A=1"), ".env.local": bytes("A=1"), ".git/config": bytes("[core]"),
                ".git/HEAD": bytes("x"),
                "lib/node_modules/a/x.js": bytes("1"), "bin/tool": tool, "k.pfx": bytes("x"), "app.js.map": bytes("{}"),
            ], to: "web")
        try #require(symlink("x.js", "\(source)/lib/node_modules/a/link") == 0)
        let names = [".env", ".env.local", ".git", "bin/tool", "k.pfx", "lib/node_modules"]
        let refusal = try refused(24, "archiveRejected")
        for name in names { #expect(refusal.errors.contains("(\(name))"), "\(name)") }
        #expect(!refusal.errors.contains("x.js"))
        try Clientctl.stock(["rm", "\(source)/lib/node_modules/a/link"])
        for name in names {
            let others = names.filter { $0 != name }.flatMap { ["--allow", $0] }
            #expect(try refused(24, "archiveRejected", others).subject?.hasSuffix(": \(name)") == true)
        }
        let excluded = names.dropLast().flatMap { ["--exclude", $0] }
        let published = try site.publish(source, as: "2.0.0", excluded + ["--allow", "node_modules"])
            .succeeded("published")
        #expect(published.errors.contains("app.js.map"))
        #expect(published["files"] == .integer(Site.client("2.0.0").count + 2))
        // Without the excluded files, the release is identical.
        let verify = ["verify", site.manifest, "--trust", site.trust, "--rebuild", source, "--json"]
        try Clientctl.run(verify).failed(23, "digestMismatch")
        try Clientctl.run(verify + excluded).succeeded("verified")
    }

    @Test(arguments: ["web", "web/feed", "web/app/../deep/feed"])
    func `publish rejects a feed inside the client's folder`(place: String)
        throws
    {
        try site.folder.makeFolder("web/deep")
        let before = try TreeSnapshot(of: source)
        let feed = ["--feed", site.folder.file(place)]
        let refusal = try site.publish(source, as: "2.0.0", feed).failed(24, "archiveRejected")
        #expect(refusal.subject?.hasPrefix("feed: ") == true)
        #expect(try TreeSnapshot(of: source).changes(since: before) == [])
        if place == "web" { return }
        for version in ["2.0.0", "2.0.1"] {
            let published = try site.publish(source, as: version, feed + ["--exclude", "feed"]).succeeded("published")
            #expect(published["files"] == .integer(Site.client(version).count))
        }
    }

    @Test(arguments: ["", "/", "a//b"]) func `publish rejects a pattern that matches no path`(pattern: String) throws {
        _ = try refused(64, "usage", ["--exclude", pattern])
        _ = try refused(64, "usage", ["--allow", pattern])
    }

    @Test func `publish rejects a page that cannot confirm its start`() throws {
        let page = "<!doctype html><title>ü</title>".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        try site.folder.write([0xFF, 0xFE] + page, to: "web/index.html")
        #expect(try refused(24, "archiveRejected").subject == "encoding: index.html")
    }

    @Test func `publish accepts text that starts like an executable`() throws {
        try site.folder.writeTree(
            ["app/mz.txt": bytes("MZ is a prefix of no importance here, none at all, is it now? Well.")], to: "web")
        try site.publish(source, as: "2.0.0").succeeded("published")
    }

    @Test func `publish rejects other content for a published version`() throws {
        let refusal = try refused(51, "versionExists", version: "1.0.0")
        #expect(refusal.subject == "1.0.0")
    }

    @Test(arguments: [["--min-shell", "1.1.0"], ["--max-shell", "9.0.0"], ["--app-id", "com.example.other"]])
    func `publish rejects other signed values for a published version`(more: [String]) throws {
        try site.publish("2.0.0", Site.client("2.0.0"))
        _ = try refused(51, "versionExists", more)
    }

    @Test(arguments: [0o640, 0o604, 0o660] as [UInt32])
    func `publish rejects a private key that other users can read`(mode: UInt32) throws {
        try #require(chmod(site.key, mode) == 0)
        #expect(try refused(31, "permissionDenied").subject == site.key)
    }

    @Test func `publish rejects a public key given as the private key`() throws {
        try #require(chmod(site.trust, 0o600) == 0)
        _ = try refused(78, "configInvalid", ["--key", site.trust])
    }

    @Test(arguments: [
        ["--format", "rar"], ["--level", "20"], ["--level", "0"], ["--window-log", "31"], ["--app-id", "kiosk"],
        ["--min-shell", "1"], ["--max-shell", "0.9.0"],
    ])
    func `publish rejects invalid values as usage errors`(more: [String]) throws {
        _ = try refused(64, "usage", more)
    }

    @Test(arguments: ["1.0", "1.0.0+build", "01.0.0", "../1.0.0", "", "1.0.0\n"])
    func `publish rejects an invalid version`(version: String) throws {
        _ = try refused(64, "usage", version: version)
    }
}
