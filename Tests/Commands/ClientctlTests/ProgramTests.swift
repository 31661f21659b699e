import BundleCore
import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// Programs from their release to their start. Most are shell scripts, which every machine can run.
@Suite(.ownThread) struct ProgramTests {
    private let site: Site
    private let seed: String

    /// Confirms the start, and prints its own version.
    private static let good = "echo running $PROGRAM_VERSION; exec \(Clientctl.path) confirm --program --json"

    init() throws {
        site = try Site()
        seed = try site.folder.write(bytes("#!/bin/sh\necho seed $PROGRAM_VERSION \"$@\"\n"), to: "seed.sh")
        chmod(seed, 0o755)
    }

    @discardableResult
    private func publish(_ version: String, _ script: String, _ more: [String] = []) throws -> Outcome {
        let source = try site.folder.writeTree(
            [
                "bin/kiosk": bytes("#!/bin/sh\n\(script)\n"), "bin/helper": bytes("#!/bin/sh\n"),
                "lib/data": bytes(version),
            ], to: "program-\(version)")
        return try site.publish(source, as: version, ["--program", "bin/kiosk"] + more)
    }

    private func install(_ more: [String] = []) throws -> Outcome { try site.install(nil, ["--program"] + more) }

    private func bring(_ version: String, _ script: String, _ more: [String] = []) throws {
        try publish(version, script, more).succeeded("published")
        try install().succeeded("installed")
    }

    private func arguments(_ more: [String], _ own: [String]) -> [String] {
        [
            "run", "--store", site.store, "--seed", seed, "--seed-version", "0.9.0",
        ] + more + ["--"] + own
    }

    private func run(_ more: [String] = [], _ own: [String] = []) throws -> Outcome {
        try Clientctl.run(arguments(more, own))
    }

    private func status(_ name: String) throws -> String? {
        try Clientctl.run(["status", "--store", site.store, "--json"]).string(name)
    }

    private func put(_ text: String, at path: String) throws {
        let file = try #require(fopen(path, "w"))
        fputs(text, file)
        fclose(file)
    }

    // MARK: Releases

    @Test func `named files of a program are executable, and all others are not`() throws {
        let source = try site.folder.writeTree(
            ["bin/kiosk": bytes("#!/bin/sh\n"), "bin/helper": bytes("#!/bin/sh\n"), "bin/other": bytes("#!/bin/sh\n")],
            to: "modes")
        for name in ["kiosk", "helper", "other"] { chmod("\(source)/bin/\(name)", 0o777) }
        try site.publish(source, as: "1.0.0", ["--program", "bin/kiosk", "--program", "bin/helper"]).succeeded()
        try install().succeeded("installed")
        let modes = try ["kiosk", "helper", "other"].map { name in
            var found = stat()
            try #require(stat("\(site.store)/clients/v1.0.0/bin/\(name)", &found) == 0)
            return found.st_mode & 0o7777
        }
        #expect(modes == [0o755, 0o755, 0o644])
    }

    @Test func `a file that the next program no longer names loses its mode, and the former program keeps it`() throws {
        let tree = ["bin/kiosk": bytes("#!/bin/sh\necho\n"), "bin/helper": bytes("#!/bin/sh\nexit\n")]
        let first = try site.folder.writeTree(tree, to: "first")
        try site.publish(first, as: "1.0.0", ["--program", "bin/kiosk", "--program", "bin/helper"]).succeeded()
        try install().succeeded("installed")
        let second = try site.folder.writeTree(tree.merging(["new": bytes("1")]) { $1 }, to: "second")
        try site.publish(second, as: "1.1.0", ["--program", "bin/kiosk"]).succeeded()
        try install().succeeded("installed")
        let modes = try ["v1.0.0", "v1.1.0"].map { name in
            var found = stat()
            try #require(stat("\(site.store)/clients/\(name)/bin/helper", &found) == 0)
            return found.st_mode & 0o7777
        }
        #expect(modes == [0o755, 0o644])
    }

    @Test func `a program that the folder does not have is refused`() throws {
        let source = try site.folder.writeTree(["bin/other": bytes("1")], to: "without")
        try site.publish(source, as: "1.0.0", ["--program", "bin/kiosk"]).failed(24, "archiveRejected")
        try site.publish(source, as: "1.0.0", ["--program", "../kiosk"]).failed(64, "usage")
    }

    @Test func `native code is published only in a release with a program`() throws {
        let native = try contents(ofFile: "/bin/true")
        let client = try site.folder.writeTree(["index.html": bytes("<p>"), "tool": native], to: "native")
        try site.publish(client, as: "1.0.0").failed(24, "archiveRejected")
        try site.publish(client, as: "1.0.0", ["--program", "tool"]).succeeded("published")
    }

    /// An ELF header for another processor than this one.
    private static var foreign: [UInt8] {
        let machine: UInt8 = ProgramMachine.own?.description == "arm64" ? 62 : 183
        return [0x7F, 0x45, 0x4C, 0x46, 2, 1, 1] + [UInt8](repeating: 0, count: 11) + [machine, 0] + bytes("rest")
    }

    @Test func `a program for another processor is refused by its channel, beside another one, and by the device`()
        throws
    {
        let foreign = try site.folder.writeTree(["kiosk": Self.foreign], to: "foreign")
        let own = ProgramMachine.own?.description ?? ""
        let channel = ["--program", "kiosk", "--channel", "stable-\(own)", "--create"]
        try site.publish(foreign, as: "1.0.0", channel).failed(47, "wrongMachine")
        let both = try site.folder.writeTree(
            ["kiosk": Self.foreign, "tool": contents(ofFile: "/bin/true")], to: "both")
        try site.publish(both, as: "1.0.0", ["--program", "kiosk"]).failed(47, "wrongMachine")
        try site.publish(foreign, as: "1.0.0", ["--program", "kiosk"]).succeeded("published")
        try install().failed(47, "wrongMachine")
        #expect(try site.list().strings("versions") == ["embedded"])
    }

    // MARK: Kinds and keys

    @Test func `a store of web clients refuses programs, and a store of programs refuses web clients`() throws {
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        let feed = site.folder.file("programs")
        try publish("1.1.0", Self.good, ["--feed", feed]).succeeded()
        try site.leavingStoreAlone {
            try site.install("\(feed)/manifest.json").failed(46, "wrongKind")
            try site.install("\(feed)/manifest.json", ["--program"]).failed(46, "wrongKind")
        }
        let store = site.folder.file("programs-store")
        let line = [
            "install", "--store", store, "--trust", site.trust, "--shell-version", "1.5.0", "--json", "--manifest",
        ]
        try Clientctl.run(line + [site.manifest, "--program"]).failed(46, "wrongKind")
        try Clientctl.run(line + ["\(feed)/manifest.json", "--program"]).succeeded("installed")
        try Clientctl.run(line + [site.manifest]).failed(46, "wrongKind")
        try Clientctl.run(["launch", "--store", store, "--json"]).failed(46, "wrongKind")
    }

    @Test func `a release key signs no program for devices with a trust root`() throws {
        let folder = site.folder
        try Clientctl.run(["keys", "generate", "--out", folder.file("program"), "--json"]).succeeded()
        let program = (key: folder.file("program.key.pem"), public: folder.file("program.pub.pem"))
        let root = folder.file("trust.json")
        try Clientctl.run([
            "trust", "init", "--out", root, "--root-key", site.trust, "--release-key", site.trust, "--program-key",
            program.public, "--sign-key", site.key, "--json",
        ]).succeeded()
        try publish("1.0.0", Self.good).succeeded()
        try site.install(nil, ["--program", "--trust", root]).failed(20, "keyUnknown")
        let feed = folder.file("signed")
        try publish("1.2.0", Self.good, ["--feed", feed, "--key", program.key]).succeeded()
        try site.install("\(feed)/manifest.json", ["--program", "--trust", root]).succeeded("installed")
        try Clientctl.run(["trust", "publish", root, "--feed", feed, "--json"]).succeeded()
        let source = folder.file("program-1.2.0")
        try site.publish(source, as: "1.3.0", ["--program", "bin/kiosk", "--feed", feed]).failed(20, "keyUnknown")
        // Nor does the key of programs sign web clients.
        let web = folder.file("web")
        try site.publish("2.0.0", nil, ["--feed", web, "--key", program.key])
        let other = ["install", "--store", folder.file("other"), "--trust", root, "--shell-version", "1.5.0", "--json"]
        try Clientctl.run(other + ["--manifest", "\(web)/manifest.json"]).failed(20, "keyUnknown")
    }

    @Test func `the manifest of an older program installs nothing`() throws {
        try bring("1.0.0", Self.good)
        let old = try contents(ofFile: site.manifest)
        try bring("1.1.0", Self.good)
        #expect(try run().text.hasPrefix("running 1.1.0"))
        let replayed = try site.folder.write(old, to: "feed/old.json")
        try site.install(replayed, ["--program"]).succeeded("upToDate")
        #expect(try run().text.hasPrefix("running 1.1.0"))
    }

    @Test func `the manifest of a program has another signature without its path`() throws {
        try publish("1.0.0", Self.good).succeeded()
        for (old, new) in [("bin/kiosk", "bin/helper"), ("\"program\"", "\"ignored\"")] {
            let text = String(decoding: try contents(ofFile: site.manifest), as: UTF8.self)
            let other = try site.folder.write(bytes(text.replacing(old, with: new)), to: "feed/other.json")
            try site.install(other, ["--program"]).failed(20, "signatureInvalid")
        }
    }

    // MARK: Starts

    @Test func `run becomes the program, with its arguments and variables`() throws {
        try bring("1.0.0", "echo $PROGRAM_VERSION ${PROGRAM_TOKEN:+trial} $CLIENTCTL_STORE \"$@\"")
        let program = try Clientctl.start(
            arguments([], ["serve", "--x y"]), environment: ["CLIENTCTL_STORE": "/c", "CLIENTCTL_UNKNOWN": "1"])
        let ending = try program.wait()
        #expect(ending.status == 0)
        #expect(ending.text == "1.0.0 trial /c serve --x y\n", "\(ending.errors)")
    }

    @Test func `a confirmed program starts again, without a token`() throws {
        try bring("1.0.0", Self.good)
        #expect(try run().text.contains("\"confirmed\""))
        #expect(try status("lastKnownGood") == "v1.0.0")
        #expect(try run().text.contains("\"alreadyConfirmed\""))
    }

    @Test(arguments: [
        "exit 1", "kill -SEGV $$", "exec /nonexistent/program", "exit 0",
        "exec \(Clientctl.path) status --store /nonexistent/store",
    ])
    func `a program that ends before it is confirmed is tried twice, with the former one between`(script: String) throws
    {
        try bring("1.0.0", Self.good)
        #expect(try run().text.hasPrefix("running 1.0.0"))
        try bring("1.1.0", "echo bad; \(script)")
        #expect(try run().text.hasPrefix("bad"))
        #expect(try run().text.hasPrefix("running 1.0.0"))
        #expect(try run().text.hasPrefix("bad"))
        for _ in 0..<2 { #expect(try run().text.hasPrefix("running 1.0.0")) }
        try install().failed(41, "versionBlocked")
    }

    @Test func `a program that no kernel can start is replaced in the same start`() throws {
        try bring("1.0.0", Self.good)
        _ = try run()
        let source = try site.folder.writeTree(["bin/kiosk": [0x7F, 0x45, 0x4C, 0x46, 9, 9]], to: "broken")
        try site.publish(source, as: "1.1.0", ["--program", "bin/kiosk"]).succeeded()
        try install().succeeded("installed")
        let outcome = try run()
        #expect(outcome.text.hasPrefix("running 1.0.0"))
        #expect(outcome.errors.contains("Exec format error"), "\(outcome.errors)")
    }

    @Test func `a program gets the signals that its service manager sends`() throws {
        try bring("1.0.0", "trap 'echo ended; exit' TERM; kill -TERM $$; sleep 0.1; echo not ended")
        #expect(try run().text == "ended\n")
    }

    @Test func `a program that is never confirmed is ended in time`() throws {
        try bring("1.0.0", Self.good)
        _ = try run()
        try bring("1.1.0", "trap '' TERM; echo waits; exec sleep 1000")
        let ended = try run(["--within", "500ms"])
        #expect(ended.signal == SIGTERM || ended.signal == SIGKILL)
        #expect(ended.text == "waits\n")
        #expect(try run().text.hasPrefix("running 1.0.0"))
    }

    @Test func `a program is confirmed by having run for a time`() throws {
        try bring("1.0.0", "until grep -q 'goodSince.*[0-9]' \(site.store)/ledger.json; do sleep 0.1; done; echo good")
        #expect(try run(["--ready", "200ms"]).text == "good\n")
        #expect(try status("lastKnownGood") == "v1.0.0")
    }

    @Test func `a program is confirmed by its message to the service manager, which gets it, too`() throws {
        let manager = try DatagramSocket(site.folder.file("notify"))
        try bring(
            "1.0.0",
            """
            python3 -c 'import os, socket
            name = os.environ["NOTIFY_SOCKET"].replace("@", chr(0))
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"STATUS=x\\nREADY=1", name)'
            until grep -q 'goodSince.*[0-9]' \(site.store)/ledger.json; do sleep 0.1; done; echo good
            """)
        let program = try Clientctl.start(
            arguments(["--ready", "notify"], []), environment: ["NOTIFY_SOCKET": site.folder.file("notify")])
        #expect(try manager.next() == "STATUS=x\nREADY=1")
        #expect(try program.wait().text == "good\n")
    }

    @Test func `a program whose probe fails is not tried`() throws {
        try bring("1.0.0", "test \"$1\" = check && { echo needs glibc 9 >&2; exit 1; }; echo started")
        let outcome = try run(["--probe", "check now"])
        #expect(outcome.text == "seed 0.9.0\n")
        #expect(outcome.errors.contains("the probe ended with status 1: needs glibc 9"), "\(outcome.errors)")
        #expect(try run(["--probe", "other"]).text == "started\n")
    }

    @Test func `a seed that does not exist is named`() throws {
        let outcome = try Clientctl.run([
            "run", "--store", site.store, "--seed", "/nonexistent/seed", "--seed-version", "1.0.0",
        ])
        #expect(outcome.status == FailureCode.programUnusable.exitStatus)
        #expect(outcome.errors.contains("error[programUnusable]: /nonexistent/seed cannot be started"))
    }

    @Test func `a seed as new as the newest program wins`() throws {
        try bring("1.0.0", Self.good)
        let line = ["run", "--store", site.store, "--seed", seed, "--seed-version", "1.0.0", "--"]
        #expect(try Clientctl.run(line).text == "seed 1.0.0\n")
        try bring("1.0.1", Self.good)
        #expect(try Clientctl.run(line).text.hasPrefix("running 1.0.1"))
    }

    @Test func `a recalled program gives way to the former one`() throws {
        let channel = ["--channel", "stable", "--create"]
        try publish("1.0.0", Self.good, channel).succeeded()
        let follow = [
            "install", "--channel", "\(site.feed)/channels/stable.json", "--store", site.store, "--trust", site.trust,
            "--shell-version", "1.5.0", "--program", "--json",
        ]
        try Clientctl.run(follow).succeeded("installed")
        #expect(try run().text.hasPrefix("running 1.0.0"))
        try publish("1.1.0", Self.good, ["--channel", "stable"]).succeeded()
        try Clientctl.run(follow).succeeded("installed")
        #expect(try run().text.hasPrefix("running 1.1.0"))
        try Clientctl.run([
            "release", "recall", "--version", "1.1.0", "--reason", "x", "--feed", site.feed, "--channel", "stable",
            "--channel-key", site.key, "--json",
        ]).succeeded()
        try Clientctl.run(follow).succeeded()
        #expect(try run().text.hasPrefix("running 1.0.0"))
    }

    @Test func `a client that needs a newer shell follows the program that brings it, and leaves with its recall`()
        throws
    {
        let channel = ["--channel", "stable", "--create"]
        let web = try Site()
        let device = ["--trust", site.trust, "--json"]
        let shellVersion = ["--shell-version", "1.5.0"]
        let clients = ["--channel", "\(web.feed)/channels/stable.json", "--store", web.store]
        let programs = ["--channel", "\(site.feed)/channels/stable.json", "--store", site.store, "--program"]
        // Updates and launches web clients as the shell of its own version.
        let shell = """
            clientctl() { command=$1; shift; \(Clientctl.path) $command --shell-version $PROGRAM_VERSION "$@"; }
            clientctl install \((clients + device).joined(separator: " ")) >&2
            launched=$(clientctl launch --store \(web.store) --json)
            value() { echo "$launched" | sed -n "s/^ *\\"$1\\": *\\"v*\\([^\\"]*\\)\\".*/\\1/p"; }
            value version
            \(Clientctl.path) confirm --store \(web.store) --version $(value version) --token $(value token) >&2
            exec \(Clientctl.path) confirm --program >&2
            """
        try publish("1.0.0", shell, channel).succeeded()
        try web.publish("1.0.0", nil, channel)
        try Clientctl.run(["install"] + programs + device + shellVersion).succeeded("installed")
        #expect(try run().text == "1.0.0\n")
        try web.publish("2.0.0", nil, ["--channel", "stable", "--min-shell", "1.1.0"])
        #expect(try run().text == "1.0.0\n")
        try publish("1.1.0", shell, ["--channel", "stable"]).succeeded()
        try Clientctl.run(["install"] + programs + device + shellVersion).succeeded("installed")
        #expect(try run().text == "2.0.0\n")
        try Clientctl.run([
            "release", "recall", "--version", "1.1.0", "--reason", "x", "--feed", site.feed, "--channel", "stable",
            "--channel-key", site.key, "--json",
        ]).succeeded()
        try Clientctl.run(["install"] + programs + device + shellVersion).succeeded()
        let former = try run()
        #expect(former.text == "1.0.0\n", "\(former.errors)")
    }

    // MARK: The seed

    @Test func `the seed starts without a usable store`() throws {
        #expect(try run([], ["a", "b"]).text == "seed 0.9.0 a b\n")
        #expect(access(site.store, F_OK) != 0, "run does not create a store")
        try bring("1.0.0", Self.good)
        _ = try run()
        let ledger = "\(site.store)/ledger.json"
        for name in [ledger, "\(site.store)/ledger.before.json"] { try put("{", at: name) }
        #expect(try run().text == "seed 0.9.0\n")
        try put("x", at: "\(site.store)/kind")
        #expect(try run().text == "seed 0.9.0\n")
    }

    @Test func `a damaged program is not started, and repair makes it executable again`() throws {
        try bring("1.0.0", Self.good)
        _ = try run()
        try put("#!/bin/sh\necho evil\n", at: "\(site.store)/clients/v1.0.0/bin/kiosk")
        #expect(try run().text == "seed 0.9.0\n")
        try Clientctl.run(["repair", "--store", site.store, "--manifest", site.manifest, "--json"]).succeeded()
        #expect(try run().text.hasPrefix("running 1.0.0"))
    }

    @Test func `a program that another user may change is not started`() throws {
        try bring("1.0.0", Self.good)
        _ = try run()
        for name in ["", "/clients", "/clients/v1.0.0", "/clients/v1.0.0/bin/kiosk", "/receipts"] {
            let path = site.store + name
            var before = stat()
            try #require(stat(path, &before) == 0)
            chmod(path, 0o777)
            #expect(try run().text == "seed 0.9.0\n", "\(name)")
            chmod(path, before.st_mode & 0o7777)
            #expect(try run().text.hasPrefix("running 1.0.0"), "\(name)")
        }
    }

    // MARK: Starts in a folder of their own

    @Test func `starts are recorded apart from a store that this user may not write to`() throws {
        try bring("1.0.0", Self.good)
        let starts = ["--starts", site.folder.file("starts")]
        let before = try site.stored()
        #expect(try run(starts).text.contains("\"confirmed\""))
        #expect(try site.stored().changes(since: before) == [])
        for version in ["1.1.0", "1.2.0", "1.3.0"] {
            try publish(version, "exit 1").succeeded()
            try install(starts).succeeded("installed")
            _ = try run(starts)
            #expect(try run(starts).text.hasPrefix("running 1.0.0"))
            // The second trial, and the start that finds it failed.
            for _ in 0..<2 { _ = try run(starts) }
        }
        // Retention keeps the program that works, which is not among the three newest.
        #expect(try site.list().strings("versions")?.contains("v1.0.0") == true)
        #expect(try run(starts).text.hasPrefix("running 1.0.0"))
    }

    @Test func `damaged starts begin again`() throws {
        try bring("1.0.0", Self.good)
        let starts = site.folder.file("starts")
        _ = try run(["--starts", starts])
        for name in ["ledger.json", "ledger.before.json"] { try put("{", at: "\(starts)/\(name)") }
        #expect(try run(["--starts", starts]).text.contains("\"confirmed\""))
    }
}
