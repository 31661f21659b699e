import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl.json` in a repository of a stranger, and the consent to it.
@Suite(.ownThread) struct ProjectFileTests {
    private let site: ChannelSite
    /// The repository.
    private let folder: String
    private let environment: [String: String]
    private var ran: String { site.folder.file("ran") }

    init() throws {
        site = try ChannelSite(withRoot: false)
        folder = try site.folder.makeFolder("project")
        try site.folder.writeTree(Site.client("1.0.0"), to: "project/dist")
        environment = [
            "XDG_STATE_HOME": site.folder.file("state"), "CLIENTCTL_PUBLISHER_STATE": site.folder.file("publisher"),
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        ]
        try site.folder.write(bytes("#!/bin/sh\ntouch '\(ran)'\nexit 1\n"), to: "project/evil.sh")
        chmod("\(folder)/evil.sh", 0o755)
    }

    private func write(_ members: KeyValuePairs<String, String>) throws {
        var object: JSONObject = [:]
        for (name, value) in members { object[name] = .string(value) }
        try site.folder.write(JSONWriter.bytes(of: .object(object), layout: .pretty), to: "project/clientctl.json")
    }

    private func run(_ arguments: String..., more: [String: String] = [:]) throws -> Outcome {
        try Clientctl.run(arguments + ["--json"], environment: environment.merging(more) { $1 }, in: folder)
    }

    private func expectRefusal(of member: String, _ outcome: Outcome) {
        outcome.failed(78, "configInvalid", "\(member)")
        #expect(outcome.subject == "clientctl.json: \(member)")
        #expect(outcome.errors.contains("clientctl init --accept"), "\(outcome.errors)")
        #expect(outcome.errors.contains("--config clientctl.json"), "\(outcome.errors)")
        #expect(access(ran, F_OK) != 0, "a program ran")
    }

    @Test func `a found project file starts no program, whatever the command`() throws {
        try write(["feed": "s3://bucket/kiosk", "channel": "stable", "credential-command": "./evil.sh"])
        for command in [["channel", "list"], ["channel", "log"], ["feed", "prune", "--dry-run"]] {
            let outcome = try Clientctl.run(command + ["--json"], environment: environment, in: folder)
            expectRefusal(of: "credential-command", outcome)
        }
        try write([
            "feed": "feed", "sign-command": "./evil.sh", "sign-public-key": site.pub("release"),
        ])
        expectRefusal(of: "sign-command", try run("publish", "dist", "--version", "1.0.0", "--dry-run"))
        try write(["feed": "feed", "key": "release.key.pem", "after-publish": "./evil.sh"])
        expectRefusal(of: "after-publish", try run("publish", "dist", "--version", "1.0.0"))
    }

    @Test func `a relative home folder does not make a file of the project the user's own`() throws {
        let settings = #"{"feed": "s3://bucket/kiosk", "channel": "stable", "credential-command": "./evil.sh"}"#
        try site.folder.writeTree(["clientctl.json": bytes(settings)], to: "project/.config")
        for home in [["XDG_CONFIG_HOME": ".config"], ["XDG_CONFIG_HOME": "", "HOME": "."]] {
            try run("channel", "list", more: home).failed(64, "usage")
            #expect(access(ran, F_OK) != 0, "a program ran")
        }
    }

    @Test func `a found project file sends no file of the user to a server`() throws {
        let token = try site.folder.write(bytes("secret\n"), to: "op.token")
        chmod(token, 0o600)
        let server = try LoopbackServer { _ in Route(bytes("{}")) }
        let address = "http://127.0.0.1:\(server.port)"
        try write(["roster": "\(address)/roster", "roster-token-file": token])
        expectRefusal(of: "roster", try run("fleet", "list"))
        expectRefusal(of: "roster", try run("fleet", "list", more: ["CLIENTCTL_ROSTER_TOKEN_FILE": token]))
        for member in ["token-file", "header-file"] {
            try write([member: token])
            expectRefusal(of: member, try run("feed", "check", address))
        }
        try write(["proxy": address, "ca-file": "ca.pem"])
        expectRefusal(of: "ca-file", try run("fleet", "list", "--roster", "\(address)/roster"))
        #expect(server.requests.isEmpty)
    }

    @Test func `a found project file reads and writes only in its folder, also through links`() throws {
        let outside = site.folder.file("outside")
        try Clientctl.stock(["cp", site.key("release"), "\(folder)/own.key.pem"])
        try Clientctl.stock(["ln", "-s", site.key("release"), "\(folder)/link.key.pem"])
        try Clientctl.stock(["ln", "-s", site.folder.path, "\(folder)/up"])
        try Clientctl.stock(["ln", "-s", outside, "\(folder)/dangling"])
        for path in [outside, "../outside", "dangling", "up/feed", "none/../../outside", "dist/../../outside"] {
            try write(["feed": path, "key": "own.key.pem"])
            expectRefusal(of: "feed", try run("publish", "dist", "--version", "1.0.0"))
        }
        for path in [site.key("release"), "link.key.pem", "up/release.key.pem"] {
            try write(["feed": "feed", "key": path])
            expectRefusal(of: "key", try run("publish", "dist", "--version", "1.0.0"))
        }
        try write(["feed": "feed", "key": "own.key.pem", "notes": "/etc/hostname"])
        expectRefusal(of: "notes", try run("publish", "dist", "--version", "1.0.0"))
        for address in ["http://127.0.0.1:1/", "file:///etc"] {
            try write(["feed": address])
            expectRefusal(of: "feed", try run("channel", "list"))
        }
        try write(["feed": "feed", "channel": "http://127.0.0.1:1/x"])
        expectRefusal(of: "channel", try run("channel", "list"))
        #expect(access(outside, F_OK) != 0)
        try write(["feed": "./deep/../feed", "key": "\(folder)/own.key.pem"])
        expectRefusal(of: "feed", try run("publish", "dist", "--version", "1.0.0"))
        try write(["feed": "./feed", "key": "\(folder)/own.key.pem"])
        try run("publish", "dist", "--version", "1.0.0").succeeded("published")
    }

    @Test func `names the project file in one line and in the answer if it set a flag`() throws {
        try Clientctl.stock(["cp", site.key("release"), "\(folder)/own.key.pem"])
        try write(["feed": "feed", "key": "own.key.pem"])
        let published = try run("publish", "dist", "--version", "1.0.0").succeeded("published")
        #expect(published.string("settings") == "clientctl.json")
        #expect(published.errors.contains("clientctl: settings from clientctl.json\n"), "\(published.errors)")
        let refused = try run("channel", "list", "--channel", "none").failed(78, "configInvalid")
        #expect(refused.string("settings") == "clientctl.json")
        let other = try run("keys", "show", "own.key.pem").succeeded()
        #expect(other["settings"] == nil && !other.errors.contains("settings"), "\(other.errors)")
        let named = try run("channel", "list", "--config", "clientctl.json")
        #expect(named["settings"] == nil)
    }

    @Test func `init --accept allows what the file sets until it changes, only in this folder`() throws {
        try write(["feed": "s3://bucket/kiosk", "credential-command": "./evil.sh"])
        let accepted = try run("init", "--accept").succeeded("accepted")
        #expect(accepted["accepted"]?.objectValue?["credential-command"] == .string("./evil.sh"))
        try run("channel", "list").failed(78, "configInvalid")
        #expect(access(ran, F_OK) == 0)
        unlink(ran)

        let copy = try site.folder.makeFolder("copy")
        try Clientctl.stock(["cp", "\(folder)/clientctl.json", "\(folder)/evil.sh", copy])
        let elsewhere = try Clientctl.run(["channel", "list", "--json"], environment: environment, in: copy)
        expectRefusal(of: "credential-command", elsewhere)
        try Clientctl.stock(["ln", "-sf", "\(folder)/clientctl.json", "\(copy)/clientctl.json"])
        let linked = try Clientctl.run(["channel", "list", "--json"], environment: environment, in: copy)
        expectRefusal(of: "credential-command", linked)

        try write(["feed": "s3://bucket/kiosk", "credential-command": "./evil.sh "])
        expectRefusal(of: "credential-command", try run("channel", "list"))
        try run("channel", "list", "--config", "clientctl.json").failed(78, "configInvalid")
        #expect(access(ran, F_OK) == 0)
        try run("init", "--accept", "--feed", "x").failed(64, "usage")
    }

    @Test func `other users cannot accept a file, and a file without consent stays without a state folder`() throws {
        try write(["feed": "s3://bucket/kiosk", "credential-command": "./evil.sh"])
        try run("init", "--accept").succeeded("accepted")
        try Clientctl.stock(["chmod", "-R", "a+w", site.folder.file("state")])
        expectRefusal(of: "credential-command", try run("channel", "list"))
        let homeless = try run("init", "--accept", more: ["XDG_STATE_HOME": "", "HOME": ""]).failed(78, "configInvalid")
        #expect(homeless.errors.contains("--config"))
    }

    @Test func `a file that init wrote is accepted, also with a feed elsewhere`() throws {
        try run("init", "--yes", "--feed", "../feed").succeeded("created")
        try run("publish", "dist", "--version", "1.0.0", "--create").succeeded("published")
        #expect(access("\(site.feed)/manifest.json", F_OK) == 0)
    }
}
