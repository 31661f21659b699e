import BundleValues
import BundleCore
import BundleTestTraits
import BundleTesting
import Glibc
import MeteorTesting
import Testing

/// Hot code pushes with the built program: accepted and rejected installations.
@Suite(.ownThread) struct MeteorCommandTests {
    private let push: PushSite

    init() throws { push = try PushSite() }

    /// Returns the files of version2 that the server must send, because the seed does not have them.
    private var changed: [String] {
        [
            "/", "/manifest.json", "/app/template.mobileapp.js", "/some-file", "/some-other-file",
            push.fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: .version2),
        ]
    }

    // MARK: Installing

    @Test func `install reports the files and bytes of a hot code push`() throws {
        try push.serve(.version2)
        let installed = try push.install().succeeded("installed")
        #expect(installed.string("version") == "version2")
        #expect(installed.string("source") == "meteor")
        #expect(installed.string("path") == "\(push.store)/meteor/version2")
        #expect(installed.string("current") == "meteor-version2")
        #expect(installed.strings("retained") == ["meteor-version2"])
        #expect(installed.strings("removed") == [])
        #expect(installed["bytesDownloaded"] == .integer(try push.bytes(of: changed, in: .version2)))
        #expect(push.requests == changed.sorted())
        let sent = push.server.requests.filter { $0.query == "meteor_dont_serve_index=true" }.map(\.path)
        #expect(sent.count == 4 && !sent.contains("/__cordova/") && !sent.contains("/__cordova/manifest.json"))
        #expect(
            try push.installed("version2").keys.sorted() == [
                "app/some-file", "app/some-other-file", "app/template.mobileapp.js", "app/template.mobileapp.js.map",
                "index.html", "program.json",
            ])
        #expect(
            try push.installed("version2")["program.json"]
                == contents(ofFile: push.fixtures.folder(of: .version2) + "/manifest.json"))
    }

    @Test func `install downloads only changed files of a second hot code push`() throws {
        try push.serve(.version2)
        try push.install().succeeded("installed")
        try push.launchAndConfirm()
        try push.serve(.version3)
        let installed = try push.install().succeeded("installed")
        let wanted = [
            "/", "/manifest.json", "/app/template.mobileapp.js", "/some-file",
            push.fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: .version3),
        ]
        #expect(push.requests == wanted.sorted())
        #expect(installed["bytesDownloaded"] == .integer(try push.bytes(of: wanted, in: .version3)))
        #expect(installed.string("pending") == "meteor-version3")
        #expect(installed.string("previous") == "meteor-version2")
        #expect(try push.names() == ["embedded", "meteor-version2", "meteor-version3"])
    }

    @Test func `install prints lines for a hot code push without --json`() throws {
        try push.serve(.version2)
        let said = try Clientctl.run(["install", "--store", push.store] + push.pushing())
        #expect(said.status == 0)
        #expect(said.text.hasPrefix("installed version2 in \(push.store)/meteor/version2 ("))
        let again = try Clientctl.run(["install", "--store", push.store] + push.pushing())
        #expect(again.text == "up to date: version2 is installed\n")
    }

    @Test func `install ends with 0 and check with 3 when the version is installed`() throws {
        // The seed is version1.
        #expect(try push.check().outcome == "upToDate")
        #expect(try push.check().status == 3)
        let seed = try push.install().succeeded("upToDate")
        #expect(seed.string("version") == "embedded")
        try push.serve(.version2)
        let available = try push.check().succeeded("available")
        #expect(available.string("version") == "version2")
        #expect(available.string("source") == "meteor")
        #expect(push.requests == ["/manifest.json"])
        try push.install().succeeded("installed")
        try push.serve(.version2)
        try push.site.leavingStoreAlone {
            let same = try push.install().succeeded("upToDate")
            #expect(same.string("version") == "version2")
            #expect(same["bytesDownloaded"] == .integer(0))
            #expect(try push.check().status == 3)
        }
        #expect(push.requests == ["/manifest.json", "/manifest.json"])
    }

    @Test func `install downloads every file without a seed and reads the application from the page`() throws {
        try push.serve(.version2)
        let bare = ["--store", push.store, "--meteor", push.server.rootURL, "--shell-version", "1.5.0", "--json"]
        let other = try Clientctl.run(["install", "--app-id", "another_app_id"] + bare).failed(26, "unsuitableBundle")
        #expect(other.error["message"]?.stringValue?.contains("does not match current appId") == true)
        try Clientctl.run(["install"] + bare).succeeded("installed")
        #expect(try push.installed("version2").count == 21)
        let settings = try push.run("status").succeeded()["meteor"]
        // `status` shows the settings of the running client.
        #expect(settings?.objectValue?["appId"] == .string(CordovaBundles.appId))
    }

    @Test func `a bundle that install saved without a seed is the seed of a device with nothing to download`() throws {
        try push.serve("spaced") { builder in
            builder.entries.append(BundleEntry("app/my photo 1.png", url: "/my photo 1.png", .bytes(bytes("photo"))))
        }
        let source = push.folder.file("source")
        try Clientctl.run(["install", "--meteor", push.server.rootURL, "--store", source, "--json"]).succeeded(
            "installed")
        let seed = push.folder.file("www")
        try Clientctl.stock(["cp", "-a", "\(source)/meteor/spaced", seed])
        #expect(try TreeSnapshot(of: seed).files.keys.contains { $0.contains("my photo 1.png") })
        try push.server.serve(version: "spaced")
        let same = try push.check(["--seed", seed])
        #expect(same.status == 3 && same.outcome == "upToDate")
        let installed = try push.install(["--seed", seed]).succeeded("upToDate")
        #expect(installed.string("version") == "embedded")
    }

    @Test func `install rejects the address of the manifest and names ROOT_URL`() throws {
        for path in ["__cordova/manifest.json", "__cordova/"] {
            let url = push.server.rootURL.hasSuffix("/") ? push.server.rootURL + path : "\(push.server.rootURL)/\(path)"
            let refused = try Clientctl.run(["install", "--meteor", url, "--store", push.store, "--json"])
            #expect(refused.status != 0)
            #expect(refused.error["message"]?.stringValue?.contains("ROOT_URL") == true, "\(refused)")
        }
    }

    @Test func `install reads the Meteor server from the configuration file`() throws {
        try push.serve(.version2)
        let file = try push.folder.write(
            bytes(
                """
                {"meteor": "\(push.server.rootURL)", "seed": "\(push.seed)", "store": "\(push.store)", "platform": "ios", \
                "shell-version": "1.5.0", "json": true, "verify-assets": "strict", "sources": "meteor"}
                """), to: "clientctl.json")
        try Clientctl.run(["check", "--config", file]).succeeded("available")
        try Clientctl.run(["install", "--config", file]).succeeded("installed")
        let launched = try Clientctl.run(["launch", "--config", file]).succeeded()
        #expect(launched.string("version") == "version2")
        let status = try Clientctl.run(["status", "--config", file]).succeeded()
        #expect(
            status["meteor"]?.objectValue?["compatibility"] == .string(CordovaBundles.iosCompatibility))
        #expect(status.strings("sources") == ["meteor"])
    }

    @Test(arguments: [
        (["--platform", "windows"], "--platform"), (["--verify-assets", "never"], "--verify-assets"),
        (["--sources", "meteor,mail"], "--sources"), (["--sources", "archive"], "nothing to do"),
        (["--sources", ""], "--sources"),
        (["--meteor", "ftp://127.0.0.1/"], "--meteor"), (["--meteor", "localhost:3000"], "--meteor"),
    ])
    func `Meteor flags reject invalid values as usage errors`(flags: [String], named: String) throws {
        let outcome = try push.run("install", push.pushing(flags)).failed(64, "usage", "\(flags)")
        #expect(outcome.errors.contains(named))
        #expect(access(push.store, F_OK) != 0)
    }

    // MARK: Rejected bundles

    /// Expects an error for the served version and an unchanged store.
    private func refused(
        _ status: Int32, _ code: String, saying words: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try push.site.leavingStoreAlone(sourceLocation: sourceLocation) {
            let outcome = try push.install().failed(status, code, sourceLocation: sourceLocation)
            let message = outcome.error["message"]?.stringValue ?? ""
            #expect(message.contains(words), sourceLocation: sourceLocation)
            #expect(!message.contains("\n"), sourceLocation: sourceLocation)
        }
    }

    private func holdVersion2() throws {
        try push.serve(.version2)
        try push.install().succeeded("installed")
        try push.launchAndConfirm()
    }

    @Test(arguments: [
        (CordovaVersion.wrongAppId, "does not match current appId"),
        (.missingAppId, "Could not find appId"), (.missingRootURL, "Could not find ROOT_URL"),
        (.differentCompatibility, "potentially incompatible"),
    ])
    func `install rejects a bundle of another application, address or compatibility`(
        version: CordovaVersion, words: String
    ) throws {
        try holdVersion2()
        try push.serve(version)
        try refused(26, "unsuitableBundle", saying: words)
        #expect(try push.names() == ["embedded", "meteor-version2"])
    }

    @Test func `check rejects a bundle with another compatibility version`() throws {
        try push.serve(.differentCompatibility)
        let outcome = try push.check().failed(26, "unsuitableBundle")
        #expect(outcome.error["message"]?.stringValue?.contains("f9d1e65c341c1b68740d41d35250e6a8e9503236") == true)
        #expect(access(push.store, F_OK) != 0)
    }

    @Test func `install rejects a bundle that changes a public ROOT_URL to localhost`() throws {
        try push.serve(.loopbackRootURL)
        try push.install().succeeded("installed")
        try push.launchAndConfirm()
        try push.serve(.wrongRootURL)
        try refused(26, "unsuitableBundle", saying: "would change current ROOT_URL to localhost")
    }

    @Test func `--platform selects the compatibility version to compare`() throws {
        try push.serve("for-android") { $0.compatibility = ["android": .string(CordovaBundles.androidCompatibility)] }
        try push.install(["--platform", "ios"]).failed(25, "manifestMalformed")
        try push.serve("other-ios") {
            $0.compatibility = ["android": .string(CordovaBundles.androidCompatibility), "ios": .string("ios-2")]
        }
        let other = try push.install(["--platform", "ios"]).failed(26, "unsuitableBundle")
        #expect(other.error["message"]?.stringValue?.contains("potentially incompatible") == true)
        try push.install(["--platform", "android"]).succeeded("installed")
    }

    @Test func `install rejects a page of another version than the manifest`() throws {
        try holdVersion2()
        try push.serve(.version1)
        try push.serve("version2b", like: .version2) { $0.page.version = "version3" }
        try refused(
            27, "versionMismatch", saying: "Version mismatch for index page, expected: version2b, actual: version3")
    }

    @Test func `install ends with httpStatus for a file that the server lacks`() throws {
        try push.serve(.missingAsset)
        let outcome = try push.install().failed(11, "httpStatus")
        #expect(outcome.subject?.contains("/app/template.mobileapp.js") == true)
        #expect(outcome.error["message"]?.stringValue?.contains("404") == true)
        #expect(try push.names() == ["embedded"])
    }

    @Test func `install ends with httpStatus for a manifest that the server fails to send`() throws {
        push.server.fault("/manifest.json", .status(500))
        let outcome = try push.install().failed(11, "httpStatus")
        #expect(
            outcome.error["message"]?.stringValue?.contains("Non-success status code 500 for asset manifest") == true)
        #expect(access(push.store, F_OK) != 0)
    }

    @Test func `install rejects files that differ from the manifest`() throws {
        try push.serve(.invalidAsset)
        let script = "/app/template.mobileapp.js"
        // An ETag of other content is rejected in every mode, a missing one only in strict mode.
        push.server.fault(
            script, .entityTag("\"\(push.fixtures.hash(of: "app/template.mobileapp.js", in: .version3))\""))
        for mode in ["compatible", "strict"] {
            let outcome = try push.install(["--verify-assets", mode]).failed(23, "digestMismatch", "\(mode)")
            #expect(outcome.subject == script)
            #expect(outcome.error["message"]?.stringValue?.contains("Hash mismatch for asset: \(script)") == true)
        }
        push.server.heal()
        push.server.fault(script, .entityTag(nil))
        try push.install(["--verify-assets", "strict"]).failed(23, "digestMismatch")
        #expect(try push.names() == ["embedded"])
    }

    @Test func `install ends with networkUnavailable without a server`() throws {
        try holdVersion2()
        push.server.stop()
        try refused(10, "networkUnavailable", saying: "Error downloading asset manifest")
    }

    // MARK: Hostile manifests

    /// Returns a manifest like the one of version2 with one change in its text.
    private func manifest(_ old: String, _ new: String) throws -> [UInt8] {
        let text = String(
            decoding: try contents(ofFile: push.fixtures.folder(of: .version2) + "/manifest.json"), as: UTF8.self)
        try #require(text.contains(old))
        return bytes(text.replacing(old, with: new))
    }

    private static let page = "<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>"

    static let changes: [(name: String, old: String, new: String, words: String)] = [
        ("a path that leads out", "\"app/some-file\"", "\"../some-file\"", "path"),
        ("a path that leads out in the middle", "\"app/some-file\"", "\"app/../../some-file\"", "path"),
        ("an absolute path", "\"app/some-file\"", "\"/etc/some-file\"", "path"),
        ("a URL that leads out", "\"/some-file\"", "\"/../some-file\"", "url"),
        ("an encoded URL that leads out", "\"/some-file\"", "\"/%2e%2e/some-file\"", "url"),
        ("a backslash", "\"app/some-file\"", "\"app\\\\..\\\\some-file\"", "path"),
        ("one URL twice", "\"/some-file\"", "\"/some-text.txt\"", "Duplicate normalized URL path"),
        ("a version that leads out", "\"version2\"", "\"../x\"", "version"),
        ("a version of updaters", "\"version2\"", "\"Downloading\"", "version"),
        ("a version that is hidden", "\"version2\"", "\".version2\"", "version"),
        ("an empty version", "\"version2\"", "\"\"", "version"),
        ("no version", "\"version\": \"version2\",", "", "does not have a version"),
        ("another format", "web-program-pre1", "web-program-pre2", "incompatible"),
        ("no compatibility version", "\"android\"", "\"windows\"", "does not have a cordovaCompatibilityVersion"),
    ]

    @Test(arguments: changes.indices)
    func `install rejects a hostile manifest and changes nothing`(index: Int) throws {
        let change = Self.changes[index]
        try holdVersion2()
        try push.serve(.version2)
        push.server.fault("/manifest.json", .content(try manifest(change.old, change.new)))
        try push.site.leavingStoreAlone("\(change.name)") {
            for command in ["install", "check"] {
                let outcome = try push.run(command, push.pushing()).failed(25, "manifestMalformed", "\(change.name)")
                let message = outcome.error["message"]?.stringValue ?? ""
                #expect(message.contains("invalidAssetManifest") && message.contains(change.words), "\(message)")
            }
        }
        // No file of the manifest is requested.
        #expect(push.requests == ["/manifest.json", "/manifest.json"])
        #expect(try push.next() == "meteor-version2")
    }

    @Test(arguments: [
        ("a page", page), ("half a manifest", "{\"version\": \"version2\", \"manif"), ("nothing", ""),
        ("no object", "[]"),
        ("no entries", #"{"format":"web-program-pre1","version":"x","cordovaCompatibilityVersions":{"android":"x"}}"#),
    ])
    func `install rejects text that is not a manifest and changes nothing`(name: String, text: String) throws {
        try holdVersion2()
        push.server.fault("/manifest.json", .content(bytes(text)))
        try refused(25, "manifestMalformed", saying: "invalidAssetManifest")
    }

    // MARK: Locks and killed runs

    @Test func `concurrent installs of a hot code push: the second fails with storeLocked`() throws {
        let gate = try Gate()
        try push.serve(.version2)
        push.server.fault("/some-other-file", .hold(gate))
        let first = try Clientctl.start(["install", "--store", push.store, "--json"] + push.pushing())
        try #require(push.server.wait(for: "/some-other-file"))
        let refused = try push.install().failed(32, "storeLocked")
        #expect(refused.subject == push.store)
        #expect(try push.names() == ["embedded"])
        gate.open()
        Outcome(try first.wait()).succeeded("installed")
        try push.install().succeeded("upToDate")
    }

    /// Returns the journal of the current attempt as text.
    private func journal() throws -> String {
        let files = try TreeSnapshot(of: "\(push.store)/staging").files
        return files.first { $0.key.hasSuffix("/assets.journal") }.map { String(decoding: $0.value, as: UTF8.self) }
            ?? ""
    }

    @Test func `install downloads only the remaining files after a kill`() throws {
        let gate = try Gate()
        try push.serve(.version2)
        push.server.fault("/some-other-file", .hold(gate))
        let running = try Clientctl.start(["install", "--store", push.store, "--json"] + push.pushing())
        try #require(push.server.wait(for: "/some-other-file"))
        let deadline = ContinuousClock.now + .seconds(60)
        let map = push.fixtures.sourceMapURL(of: "app/template.mobileapp.js", in: .version2)
        while true {
            let written = try journal()
            if ["/app/template.mobileapp.js", "/some-file", map].allSatisfy(written.contains) { break }
            try #require(ContinuousClock.now < deadline, "the journal says \(written)")
            poll(nil, 0, 10)
        }
        running.send(SIGKILL)
        #expect(try running.wait().signal == SIGKILL)
        gate.open()
        push.server.heal()
        #expect(try push.names() == ["embedded"])
        try push.serve(.version2)
        let installed = try push.install().succeeded("installed")
        #expect(Set(push.requests).subtracting(["/"]) == ["/manifest.json", "/some-other-file"])
        #expect(installed["bytesDownloaded"] == .integer(try push.bytes(of: push.requests, in: .version2)))
        let whole = try PushSite()
        try whole.serve(.version2)
        try whole.install().succeeded("installed")
        #expect(try push.installed("version2") == whole.installed("version2"))
        let receipt = "receipts/meteor-version2.json"
        #expect(try contents(ofFile: "\(push.store)/\(receipt)") == contents(ofFile: "\(whole.store)/\(receipt)"))
        #expect(try TreeSnapshot(of: "\(push.store)/downloads").paths == [])
        #expect(try TreeSnapshot(of: "\(push.store)/staging").paths == [])
    }
}
