import BundleValues
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// Launches, verdicts and manual changes with Meteor bundles, alone and together with archives.
@Suite(.ownThread) struct MeteorLaunchTests {
    private let push: PushSite

    init() throws { push = try PushSite() }

    private func install(_ version: CordovaVersion) throws {
        try push.serve(version)
        try push.install().succeeded("installed")
    }

    // MARK: Launches

    @Test func `launch shows a bundle together with files of the seed`() throws {
        try install(.version2)
        let launched = try push.launch().succeeded()
        #expect(launched.string("version") == "version2")
        #expect(launched.string("source") == "meteor")
        #expect(launched["trial"] == .bool(true))
        #expect(launched.string("reason") == "the last usable hot code push")
        let root = try #require(launched.string("servingRoot"))
        #expect(root == "\(push.store)/serving/meteor-version2")
        let page = String(decoding: try contents(ofFile: "\(root)/index.html"), as: UTF8.self)
        #expect(page.contains("WebAppLocalServer") && page.contains("version2"))
        #expect(try contents(ofFile: "\(root)/some-file") == bytes("some-file (changed)\n"))
        #expect(try contents(ofFile: "\(root)/some-text.txt") == bytes("some-text.txt\n"))
        #expect(try contents(ofFile: "\(root)/cordova_plugins.js") == bytes("// cordova_plugins.js\n"))
        #expect(access("\(root)/program.json", F_OK) != 0)
        let status = try push.run("status").succeeded()
        #expect(status["launch"]?.objectValue?["name"] == .string("meteor-version2"))
    }

    @Test func `launch extracts a seed that cannot be linked once, and links every bundle to it`()
        throws
    {
        guard let elsewhere = try TemporaryFolder(elsewhereThan: push.folder.path) else {
            try Test.cancel("there is one file system only")
        }
        try Clientctl.stock(["cp", "-a", push.seed, elsewhere.file("seed")])
        let seed = ["--seed", elsewhere.file("seed")]
        var files: [ino_t] = []
        for version in [CordovaVersion.version2, .version3] {
            try push.serve(version)
            try push.install(seed).succeeded("installed")
            let launched = try push.launch(seed).succeeded()
            try push.run("confirm", push.verdict(launched)).succeeded("confirmed")
            var status = stat()
            let file = try #require(launched.string("servingRoot")) + "/some-text.txt"
            try #require(stat(file, &status) == 0, "\(file)")
            #expect(try contents(ofFile: file) == bytes("some-text.txt\n"))
            files.append(status.st_ino)
            // One link each for the file itself, the root of the seed and each bundle.
            #expect(status.st_nlink == files.count + 1)
        }
        #expect(Set(files).count == 1)
        let page = String(
            decoding: try contents(ofFile: "\(push.store)/serving/meteor-version3/index.html"), as: UTF8.self)
        #expect(page.ranges(of: "version3").isEmpty == false)
        withExtendedLifetime(elsewhere) {}
    }

    @Test(arguments: ["version2", "meteor-version2"])
    func `confirm accepts the version or the name of a bundle`(name: String) throws {
        try install(.version2)
        let first = try push.launch().succeeded()
        let confirmed = try push.run("confirm", push.verdict(first, as: name)).succeeded("confirmed")
        #expect(confirmed.string("version") == "version2")
        try push.run("confirm", push.verdict(first, as: name)).succeeded("alreadyConfirmed")
        try push.run("fail", push.verdict(first, as: name)).failed(27, "versionMismatch")
        #expect(try push.run("status").string("lastKnownGood") == "meteor-version2")
        try push.run("confirm", push.verdict(first, as: "version3")).failed(64, "usage")
    }

    @Test func `list and status show Meteor bundles`() throws {
        try install(.version2)
        try push.launchAndConfirm()
        try install(.version3)
        let list = try push.run("list").succeeded()
        #expect(list.strings("versions") == ["embedded", "meteor-version2", "meteor-version3"])
        #expect(list.string("current") == "meteor-version2")
        #expect(list.string("pending") == "meteor-version3")
        let clients = list["clients"]?.arrayValue?.compactMap(\.objectValue) ?? []
        #expect(clients.map { $0["source"] } == [.string("meteor"), .string("meteor")])
        #expect(clients.map { $0["version"] } == [.string("version2"), .string("version3")])
        #expect(clients.map { $0["minShellVersion"] } == [.null, .null])
        #expect(clients.first?["path"] == .string("\(push.store)/meteor/version2"))
        #expect(clients.first?["files"] == .integer(6))
        let status = try push.run("status").succeeded()
        #expect(status.string("next") == "meteor-version3")
        #expect(status.string("lastKnownGood") == "meteor-version2")
        #expect(status.string("offered") == "meteor-version3")
        #expect(status.strings("sources") == ["meteor", "archive"])
        #expect(
            status["meteor"]
                == .object([
                    "version": .string("version2"), "appId": .string(CordovaBundles.appId),
                    "rootURL": .string(CordovaBundles.rootURL),
                    "compatibility": .string(CordovaBundles.androidCompatibility),
                ]))
        #expect(try push.status(of: "meteor-version2").state == "good")
        #expect(try push.status(of: "meteor-version3").state == "staged")
    }

    // MARK: Failed starts

    @Test func `two failed launches block a Meteor version, and checks skip it`() throws {
        try install(.version2)
        #expect(try push.launchAndFail() == "version2")
        #expect(try push.status(of: "meteor-version2").state == "failed")
        #expect(try push.launchAndConfirm() == "embedded")
        // For the retry, the files are installed already, so only the manifest is requested.
        try push.serve(.version2)
        _ = try push.install().succeeded()
        #expect(push.requests == ["/manifest.json"])
        #expect(try push.launchAndFail() == "version2")
        #expect(try push.status(of: "meteor-version2").state == "blocked")
        #expect(try push.launchAndConfirm() == "embedded")
        try push.serve(.version2)
        try push.site.leavingStoreAlone {
            let refused = try push.install().failed(41, "versionBlocked")
            #expect(refused.subject == "version2")
            let message = refused.error["message"]?.stringValue ?? ""
            #expect(message.contains("Skipping downloading blacklisted version"), "\(message)")
            let check = try push.check()
            #expect(check.status == 3)
            #expect(check.outcome == "blocked")
        }
        #expect(push.requests == ["/manifest.json", "/manifest.json"])
        // A newer version of the server is not blocked.
        try install(.version3)
        #expect(try push.launchAndConfirm() == "version3")
    }

    @Test func `check waits and install explains before the second trial of a Meteor version`() throws {
        try install(.version2)
        #expect(try push.launchAndFail() == "version2")
        #expect(try push.launchAndConfirm() == "embedded")
        try push.site.leavingStoreAlone {
            let check = try push.check()
            #expect(check.status == 3)
            #expect(check.outcome == "waiting")
            #expect(check.string("waiting") == "trial")
            #expect(check.string("waitingDetail")?.hasPrefix("it failed once") == true)
        }
        func repeatInstallation() throws {
            let text = try Clientctl.run(["install", "--store", push.store] + push.pushing()).text
            #expect(text.hasPrefix("up to date: version2 is installed. It failed once, and is tried once more"))
        }
        try repeatInstallation()
        try push.site.leavingStoreAlone { try repeatInstallation() }
    }

    @Test(arguments: ["version2", "meteor-version2"])
    func `unblock allows a blocked Meteor version by version or name`(name: String) throws {
        try install(.version2)
        for _ in 0..<2 {
            #expect(try push.launchAndFail() == "version2")
            try push.launchAndConfirm()
        }
        #expect(try push.run("status")["blocked"]?.arrayValue?.count == 1)
        let unblocked = try push.run("unblock", ["--version", name]).succeeded("unblocked")
        #expect(unblocked.string("version") == "version2")
        try push.run("unblock", ["--version", name]).succeeded("notBlocked")
        try push.serve(.version2)
        _ = try push.install().succeeded()
        #expect(push.requests == ["/manifest.json"])
        #expect(try push.launchAndConfirm() == "version2")
    }

    @Test(arguments: ["version2", "meteor-version2", "embedded"])
    func `rollback returns to a Meteor client by version or name`(name: String) throws {
        try install(.version2)
        try push.launchAndConfirm()
        try install(.version3)
        try push.launchAndConfirm()
        let target = name == "embedded" ? "embedded" : "version2"
        let result = try push.run("rollback", ["--version", name]).succeeded("rolledBack")
        #expect(result.string("version") == target)
        #expect(result.strings("blocked")?.contains("meteor-version3") == true)
        #expect(try push.launch().succeeded().string("version") == target)
        try push.serve(.version3)
        let refused = try push.install().failed(41, "versionBlocked")
        #expect(refused.error["message"]?.stringValue?.contains("blacklisted") == true)
    }

    @Test func `rollback and unblock reject a version that two clients have`() throws {
        try push.site.publish("1.0.0")
        try push.site.install().succeeded("installed")
        try push.launchAndConfirm()
        try push.serve("1.0.0")
        try push.install().succeeded("installed")
        #expect(try push.names() == ["embedded", "v1.0.0", "meteor-1.0.0"])
        let launched = try push.launch().succeeded()
        #expect(launched.string("source") == "meteor")
        // The token identifies the client.
        try push.run("confirm", push.verdict(launched)).succeeded("confirmed")
        for command in [["rollback", "--version", "1.0.0"], ["unblock", "--version", "1.0.0"]] {
            let asked = try push.run(command[0], Array(command.dropFirst())).failed(64, "usage")
            #expect(asked.error["message"]?.stringValue?.contains("meteor-1.0.0 or v1.0.0") == true)
        }
        let back = try push.run("rollback", ["--version", "v1.0.0"]).succeeded("rolledBack")
        #expect(back.strings("blocked") == ["meteor-1.0.0"])
        #expect(try push.launch().succeeded().string("source") == "archive")
    }

    // MARK: Both sources

    @Test func `a hot code push precedes an archive and falls back to the confirmed client`() throws {
        try push.site.publish("1.0.0")
        let first = try push.run("install", push.both()).succeeded("installed")
        #expect(first.string("version") == "1.0.0")
        #expect(first["sources"]?.arrayValue?.count == 2)
        #expect(try push.next() == "v1.0.0")
        #expect(try push.launchAndConfirm() == "1.0.0")

        try push.serve(.version2)
        try push.run("install", push.both()).succeeded("installed")
        #expect(try push.next() == "meteor-version2")
        #expect(try push.status(of: "v1.0.0").reason.contains("the order of the sources is meteor,archive"))
        #expect(try push.launchAndConfirm() == "version2")

        // A newer archive is not shown.
        try push.site.publish("1.1.0")
        try push.run("install", push.both()).succeeded("installed")
        #expect(try push.next() == "meteor-version2")

        try push.serve(.version3)
        try push.run("install", push.both()).succeeded("installed")
        #expect(try push.launchAndFail() == "version3")
        #expect(try push.next() == "meteor-version2")
        #expect(try push.launchAndConfirm() == "version2")
        #expect(try push.launchAndFail() == "version3")
        #expect(try push.status(of: "meteor-version3").state == "blocked")
        #expect(try push.launchAndConfirm() == "version2")
        #expect(try push.next() == "meteor-version2")
    }

    @Test func `a failing source does not stop the other one`() throws {
        try push.site.publish("1.0.0")
        push.server.fault("/manifest.json", .status(503))
        for command in ["check", "install"] {
            let outcome = try push.run(command, push.both()).failed(11, "httpStatus", "\(command)")
            let others = outcome["sources"]?.arrayValue?.compactMap(\.objectValue) ?? []
            #expect(others.map { $0["version"] } == [.string("1.0.0")])
            #expect(others.first?["outcome"] == .string(command == "check" ? "available" : "installed"))
        }
        #expect(try push.names() == ["embedded", "v1.0.0"])
        try push.site.publish("1.1.0")
        let plain = try Clientctl.run(["install", "--store", push.store] + push.both())
        #expect(plain.status == 11)
        #expect(plain.text.hasPrefix("installed 1.1.0 in "))
        // The same with the sources reversed.
        push.server.heal()
        try push.serve(.version2)
        let feed = ["--manifest", "http://127.0.0.1:9/manifest.json", "--trust", push.site.trust]
        try push.run("install", push.pushing(feed)).failed(10, "networkUnavailable")
        #expect(try push.next() == "meteor-version2")
    }

    @Test func `with --sources archive,meteor an archive precedes a hot code push`() throws {
        let order = ["--sources", "archive,meteor"]
        try push.serve(.version2)
        try push.run("install", push.pushing(order)).succeeded("installed")
        #expect(try push.launchAndConfirm(order) == "version2")
        try push.site.publish("1.0.0")
        try push.run("install", push.both(order)).succeeded("installed")
        #expect(try push.next() == "v1.0.0")
        #expect(try push.run("status").strings("sources") == ["archive", "meteor"])
        #expect(try push.status(of: "meteor-version2").reason.contains("the order of the sources is archive,meteor"))
        // The store remembers the order.
        #expect(try push.launchAndFail() == "1.0.0")
        #expect(try push.launchAndConfirm() == "version2")
        #expect(try push.launchAndFail() == "1.0.0")
        #expect(try push.status(of: "v1.0.0").state == "blocked")
        #expect(try push.launchAndConfirm() == "version2")
        try push.serve(.version3)
        try push.install().succeeded("installed")
        #expect(try push.launchAndConfirm() == "version3")
    }

    @Test func `a disabled source is ignored`() throws {
        try install(.version2)
        try push.site.publish("1.0.0")
        try push.site.install().succeeded("installed")
        #expect(try push.launchAndConfirm(["--sources", "archive"]) == "1.0.0")
        #expect(try push.status(of: "meteor-version2").reason.contains("the source meteor is disabled"))
        // The store remembers the sources, so an installation from a disabled source prints a warning.
        try push.serve(.version3)
        let unseen = try push.install()
        unseen.succeeded("installed")
        #expect(unseen.errors.contains("the source meteor is switched off in this store"))
        #expect(try push.launchAndConfirm() == "1.0.0")
        #expect(try push.install(["--sources", "meteor,archive"]).errors.contains("switched off") == false)
        #expect(try push.launch(["--sources", "meteor,archive"]).succeeded().string("version") == "version3")
    }

    // MARK: The store

    @Test func `N-13: a new seed removes hot code pushes and keeps archives`() throws {
        try push.site.publish("1.0.0")
        try push.site.install().succeeded("installed")
        try install(.version2)
        try push.launchAndConfirm()
        let other = push.folder.file("other-seed")
        try CordovaBundles.seed().with { $0.version = .stated("version1b") }.build().writeBundleLayout(to: other)
        #expect(try push.launchAndConfirm(["--seed", other]) == "1.0.0")
        #expect(try push.names() == ["embedded", "v1.0.0"])
        #expect(access("\(push.store)/meteor/version2", F_OK) != 0)
        // The bundles are installed again for the new seed.
        try push.serve(.version2)
        try push.install(["--seed", other]).succeeded("installed")
        #expect(try push.launch(["--seed", other]).succeeded().string("version") == "version2")
    }

    @Test func `prune removes unused Meteor bundles`() throws {
        try install(.version2)
        try push.launchAndConfirm()
        for version in ["a", "b", "c"] {
            try push.serve(version)
            try push.install(["--keep", "9"]).succeeded("installed")
        }
        let plan = try push.run("prune", ["--keep", "1", "--dry-run"]).succeeded("dryRun")
        #expect(plan.strings("removed") == ["meteor-a", "meteor-b"])
        #expect(
            try push.run("prune", ["--keep", "1"]).succeeded("removed").strings("removed") == ["meteor-a", "meteor-b"])
        #expect(try push.names() == ["embedded", "meteor-version2", "meteor-c"])
        #expect(try push.launchAndConfirm() == "c")
    }

    @Test func `verify finds a damaged file of a Meteor bundle`() throws {
        try push.site.publish("1.0.0")
        try push.site.install().succeeded("installed")
        try install(.version2)
        let verified = try push.run("verify").succeeded("verified")
        #expect(verified.strings("versions") == ["v1.0.0", "meteor-version2"])
        try push.folder.write(bytes("some-file (chAnged)\n"), to: "store/meteor/version2/app/some-file")
        let damaged = try push.run("verify").failed(33, "storeDamaged")
        #expect(damaged.subject?.contains("meteor-version2") == true)
        #expect(damaged.subject?.contains("app/some-file") == true)
        let launched = try push.launch(["--verify-on-launch"]).succeeded()
        #expect(launched.string("version") == "1.0.0")
        #expect(launched.errors.contains("meteor-version2"))
    }
}
