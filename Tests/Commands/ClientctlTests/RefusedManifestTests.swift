import BundleValues
import BundleTestTraits
import BundleTesting
import Testing

/// Manifests that `install` rejects: exit status, code and an unchanged store.
@Suite(.ownThread) struct RefusedManifestTests {
    private let site: Site

    init() throws {
        site = try Site()
        try site.publish("1.0.0", nil, ["--app-id", "com.example.kiosk"])
        try site.install(nil, ["--app-id", "com.example.kiosk"]).succeeded("installed")
        try site.publish("2.0.0", nil, ["--app-id", "com.example.kiosk", "--max-shell", "3.0.0"])
    }

    /// Returns the path of a changed copy of the manifest of 2.0.0.
    private func changed(_ change: (inout JSONObject) -> Void) throws -> String {
        var manifest = try site.object(site.manifest)
        change(&manifest)
        try site.folder.write(JSONWriter.bytes(of: .object(manifest)), to: "feed/changed.json")
        return "\(site.feed)/changed.json"
    }

    private func changed(text replace: (String) -> String) throws -> String {
        let text = String(decoding: try contents(ofFile: site.manifest), as: UTF8.self)
        let new = replace(text)
        #expect(new != text)
        try site.folder.write(bytes(new), to: "feed/changed.json")
        return "\(site.feed)/changed.json"
    }

    @Test func `install rejects an untrusted key with keyUnknown`() throws {
        try Clientctl.run(["keys", "generate", "--out", site.folder.file("other"), "--json"]).succeeded()
        let other = ["--trust", site.folder.file("other.pub.pem")]
        try site.leavingStoreAlone {
            let refused = try site.install(nil, other).failed(20, "keyUnknown")
            #expect(refused.subject == site.keyId)
            // Without a key ID, the signature is only invalid.
            try site.install(changed { $0["keyId"] = nil }, other).failed(20, "signatureInvalid")
            // The same with the ID of another key.
            let other = try Clientctl.run(["keys", "show", site.folder.file("other.pub.pem"), "--json"])
            try site.install(
                changed { $0["keyId"] = other["keyId"] }, ["--trust", site.folder.file("other.pub.pem")]
            ).failed(20, "signatureInvalid")
            try site.check(nil, ["--trust", site.folder.file("other.pub.pem")]).failed(20, "keyUnknown")
        }
    }

    @Test func `install rejects a change of any signed field`() throws {
        let others: [(String, JSONValue?)] = [
            ("appId", .string("com.example.other")), ("appId", nil), ("version", .string("2.0.1")),
            ("sha256", .string(String(repeating: "a", count: 64))), ("size", .integer(1)), ("size", nil),
            ("contentSha256", .string(String(repeating: "b", count: 64))), ("contentSha256", nil),
            ("installedSize", .integer(1)), ("installedSize", nil), ("fileCount", .integer(1)), ("fileCount", nil),
            ("minShellVersion", .string("0.1.0")), ("maxShellVersion", .string("9.0.0")), ("maxShellVersion", nil),
            ("createdAt", .string("2020-01-01T00:00:00Z")), ("createdAt", nil),
            ("signature", .string("AAAA")),
            ("signature", .string(String(repeating: "A", count: 86) + "==")),
        ]
        try site.leavingStoreAlone {
            for (name, value) in others {
                try site.install(changed { $0[name] = value }).failed(20, "signatureInvalid", "\(name)")
            }
            // Unsigned members may change.
            for (name, value) in [("notes", "an unknown member"), ("keyId", String(repeating: "0", count: 64))] {
                try site.check(changed { $0[name] = .string(value) }).succeeded("available", "\(name)")
            }
        }
    }

    @Test func `install reports a changed manifest as damaged and asks for no key`() throws {
        let refused = try site.install(changed { $0["size"] = .integer(1) }).failed(20, "signatureInvalid")
        #expect(refused.errors.contains("changed or damaged"))
        #expect(!refused.errors.contains("missing"))
    }

    @Test func `install reports a web page instead of a manifest as a captive portal`() throws {
        let page = try LoopbackServer { _ in
            Route(bytes("\n <!DOCTYPE html><title>Welcome to the guest network</title>"))
        }
        let flags = ["--store", site.store, "--shell-version", "1.5.0", "--trust", site.trust, "--json"]
        for feed in [
            ["--manifest", try page.url("/manifest.json").display],
            ["--channel", try page.url("/channels/stable.json").display],
        ] {
            let refused = try Clientctl.run(["install"] + feed + flags).failed(25, "manifestMalformed")
            #expect(refused.errors.contains("captive portal"), "\(refused.errors)")
        }
        let rooted = try ChannelSite()
        let trusting = ["--store", site.store, "--shell-version", "1.5.0", "--trust", rooted.pinned, "--json"]
        let refusedRoot = try Clientctl.run(
            ["install", "--channel", try page.url("/channels/stable.json").display] + trusting
        ).failed(25, "manifestMalformed")
        #expect(refusedRoot.errors.contains("captive portal"), "\(refusedRoot.errors)")
        let login = try LoopbackServer { _ in Route(bytes("log in"), status: 511) }
        let refused = try site.install(login.url("/manifest.json").display).failed(11, "httpStatus")
        #expect(refused.errors.contains("captive portal"))
        #expect(!refused.errors.contains("at fault"))
    }

    /// Responses of real servers and proxies in place of a document, and a word of the message.
    private static let mangled: [(name: String, route: Route, word: String)] = [
        ("empty", Route([]), "returned an empty document"),
        ("gzip without its header", Route([0x1F, 0x8B, 0x08, 0, 0, 0, 0, 0]), "compressed with gzip"),
        ("byte order mark", Route([0xEF, 0xBB, 0xBF] + bytes("{}")), "byte order mark"),
        ("text of a proxy", Route(bytes("Access denied by policy")), "Access denied by policy"),
    ]

    @Test func `install names what a server sent instead of a document, and from where`() throws {
        for (name, route, word) in Self.mangled {
            let server = try LoopbackServer { _ in route }
            for flag in ["manifest", "channel"] {
                let url = try server.url("/channels/stable.json").display
                let refused = try Clientctl.run([
                    "install", "--\(flag)", url, "--store", site.store, "--shell-version", "1.5.0", "--trust",
                    site.trust,
                    "--json",
                ]).failed(25, "manifestMalformed", "\(name)")
                #expect(refused.errors.contains(word) && refused.errors.contains(url), "\(refused.errors)")
            }
        }
        let login = try LoopbackServer { _ in Route(bytes("<html>login</html>")) }
        let manifest = try contents(ofFile: site.manifest)
        let archive = try LoopbackServer { request in
            Route(request.path == "/manifest.json" ? manifest : bytes("<html>login</html>"))
        }
        let replaced = try site.install(archive.url("/manifest.json").display).failed(23, "sizeMismatch")
        #expect(replaced.errors.contains("it is a web page"), "\(replaced.errors)")
        let channel = #"{"payloadType":"x","payload":"e30=","signatures":[]}"#
        let push = #"{"format":"web-program-pre1","manifest":[],"version":"verA"}"#
        for (document, flag) in [(channel, "--channel"), (push, "--meteor")] {
            let other = try site.folder.write(bytes(document), to: "other.json")
            let refused = try site.install(other).failed(25, "manifestMalformed")
            #expect(refused.errors.contains("with \(flag)"), "\(refused.errors)")
        }
        let (target, redirect) = (try login.url("/login?user=secret"), try LoopbackServer())
        redirect.set("/manifest.json", .redirect(to: "\(target)"))
        let refused = try site.install(redirect.url("/manifest.json").display).failed(25, "manifestMalformed")
        #expect(refused.errors.contains("\(target.display), to which"), "\(refused.errors)")
        #expect(!refused.errors.contains("secret"))
    }

    @Test func `install reads documents that a server compressed without being asked`() throws {
        let feed = site.feed
        let server = try LoopbackServer { request in
            guard request.path.hasSuffix(".json") else {
                return Route((try? contents(ofFile: feed + request.path)) ?? [])
            }
            let packed = try? Program.run(["gzip", "-c", feed + request.path], environment: ["PATH": "/usr/bin:/bin"])
            guard let packed, packed.status == 0 else { return Route([], status: 404) }
            return Route(packed.output).with { $0.headers = [("Content-Encoding", "gzip")] }
        }
        try site.install(server.url("/manifest.json").display).succeeded("installed")
    }

    @Test func `install passes a signed query to the files of the feed and not to mirrors`() throws {
        let feed = site.feed
        let server = try LoopbackServer { request in
            guard request.target.hasSuffix("?sig=secret") else { return Route([], status: 403) }
            return (try? contents(ofFile: feed + request.path)).map { Route($0) } ?? Route([], status: 404)
        }
        let mirror = try LoopbackServer()
        try site.install("\(try server.url("/manifest.json?sig=secret"))", ["--mirror", "\(try mirror.url("/"))"])
            .succeeded("installed")
        #expect(!mirror.requests.isEmpty && mirror.requests.allSatisfy { !$0.target.contains("?") })
    }

    @Test func `install rejects malformed manifests`() throws {
        let changes: [(String, (String) -> String)] = [
            ("duplicate key", { $0.replacing("\"schema\": 1,", with: "\"schema\": 1, \"schema\": 1,") }),
            ("duplicate key, escaped", { $0.replacing("\"schema\": 1,", with: "\"schema\": 1, \"\\u0073chema\": 1,") }),
            ("null", { $0.replacing("\"schema\": 1,", with: "\"schema\": 1, \"notesSha256\": null,") }),
            ("another schema", { $0.replacing("\"schema\": 1,", with: "\"schema\": 2,") }),
            ("schema as text", { $0.replacing("\"schema\": 1,", with: "\"schema\": \"1\",") }),
            ("fraction", { $0.replacing("\"fileCount\": 5", with: "\"fileCount\": 5.0") }),
            ("exponent", { $0.replacing("\"fileCount\": 5", with: "\"fileCount\": 5e0") }),
            ("negative", { $0.replacing("\"fileCount\": 5", with: "\"fileCount\": -5") }),
            ("beyond 2^53", { $0.replacing("\"fileCount\": 5", with: "\"fileCount\": 9007199254740992") }),
            ("number as text", { $0.replacing("\"fileCount\": 5", with: "\"fileCount\": \"5\"") }),
            ("trailing comma", { $0.replacing("\n}", with: ",\n}") }),
            ("trailing text", { $0 + "x" }), ("two of them", { $0 + $0 }),
            ("byte order mark", { "\u{FEFF}" + $0 }), ("nothing", { _ in "" }), ("a list", { "[\($0)]" }),
            ("cut off", { String($0.dropLast(40)) }), ("HTML", { _ in "<!doctype html>" }),
            (
                "longer than 64 KiB",
                { $0.replacing("\"schema\"", with: "\"x\": \"\(String(repeating: "x", count: 65536))\", \"schema\"") }
            ),
            ("white space beyond 64 KiB", { $0 + String(repeating: " ", count: 65536) }),
            ("control character", { $0.replacing("com.example.kiosk", with: "com.example\\nversion=9.0.0") }),
            ("raw control character", { $0.replacing("com.example.kiosk", with: "com.example\u{1}") }),
            ("digest in capitals", { $0.replacing("\"sha256\": \"", with: "\"sha256\": \"A") }),
            ("leading v", { $0.replacing("\"version\": \"", with: "\"version\": \"v") }),
            ("build metadata", { $0.replacing("\"version\": \"2.0.0\"", with: "\"version\": \"2.0.0+1\"") }),
            (
                "reversed shell range",
                { $0.replacing("\"maxShellVersion\": \"3.0.0\"", with: "\"maxShellVersion\": \"0.1.0\"") }
            ),
            ("local time", { $0.replacing("Z\",", with: "+00:00\",") }),
            ("signature that is not base64", { $0.replacing("\"signature\": \"", with: "\"signature\": \"!") }),
            (
                "deep",
                {
                    $0.replacing(
                        "\"schema\"",
                        with:
                            "\"x\": \(String(repeating: "[", count: 5000))\(String(repeating: "]", count: 5000)), \"schema\""
                    )
                }
            ),
        ]
        try site.leavingStoreAlone {
            for (what, change) in changes {
                try site.install(changed(text: change)).failed(25, "manifestMalformed", "\(what)")
            }
            for name in ["version", "url", "sha256", "signature", "minShellVersion"] {
                try site.install(changed { $0[name] = nil }).failed(25, "manifestMalformed", "\(name)")
                try site.install(changed { $0[name] = .integer(1) }).failed(25, "manifestMalformed", "\(name)")
                try site.install(changed { $0[name] = .string("") }).failed(25, "manifestMalformed", "\(name)")
            }
            // An unchanged copy and unknown members are accepted.
            try site.check(changed { _ in }).succeeded("available")
            try site.check(changed { $0["unknown"] = .array([.integer(1)]) }).succeeded("available")
        }
    }

    @Test func `install rejects a manifest that is not UTF-8`() throws {
        let manifest = try contents(ofFile: site.manifest)
        try site.leavingStoreAlone {
            for bad in [[0xFF], [0xC0, 0xAF], [0xED, 0xA0, 0x80]] as [[UInt8]] {
                try site.folder.write(
                    bytes("{\"notes\": \"") + bad + bytes("\", ") + manifest.dropFirst(), to: "feed/changed.json")
                try site.install("\(site.feed)/changed.json").failed(25, "manifestMalformed", "\(bad)")
            }
        }
    }

    @Test func `install reports a shell outside the supported range as incompatible`() throws {
        let clients = try site.list()["versions"]
        func needed(_ shell: String) throws -> String? {
            try Clientctl.run(["status", "--store", site.store, "--shell-version", shell, "--json"])
                .succeeded().string("updateRequired")
        }
        for (shell, missing) in [("0.9.9", "1.0.0"), ("1.0.0-rc.1", "1.0.0"), ("3.0.1", nil), ("0.9.9", "1.0.0")] {
            let refused = try site.install(shell: shell).failed(42, "incompatibleShell", "\(shell)")
            #expect(refused.outcome == "incompatible")
            #expect(refused.string("version") == "2.0.0")
            // The store remembers the release for shells that are too old for it.
            #expect(try needed(shell) == missing, "\(shell)")
            #expect(try needed("1.0.0") == nil)
        }
        let plain = try Clientctl.run(["status", "--store", site.store, "--shell-version", "0.9.9"]).text
        #expect(plain.contains("! a newer client needs shell 1.0.0: update the shell"))
        #expect(try site.list()["versions"] == clients)
        try site.leavingStoreAlone {
            for shell in ["1.0.0", "3.0.0"] { try site.check(shell: shell).succeeded("available", "\(shell)") }
        }
    }

    @Test func `install rejects a manifest of another application or none`() throws {
        // Each feed has one application.
        let feeds = ["3.0.0": site.folder.file("other"), "4.0.0": site.folder.file("none")]
        for (version, feed) in feeds {
            let appId = version == "3.0.0" ? ["--app-id", "com.example.other"] : []
            let source = try site.folder.writeTree(Site.client(version), to: "web-\(version)")
            try site.publish(source, as: version, ["--feed", feed] + appId).succeeded("published", "\(version)")
        }
        try site.leavingStoreAlone {
            for version in ["3.0.0", "4.0.0"] {
                let manifest = try #require(feeds[version]) + "/manifest.json"
                try site.install(manifest, ["--app-id", "com.example.kiosk"]).failed(43, "appMismatch", "\(version)")
                // The store has recorded its application.
                try site.install(manifest).failed(43, "appMismatch", "\(version)")
                try site.check(manifest).failed(43, "appMismatch", "\(version)")
            }
            try site.install(nil, ["--app-id", "com.example.other"]).failed(43, "appMismatch")
        }
    }
}
