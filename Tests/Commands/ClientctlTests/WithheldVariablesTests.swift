import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("The environment of started programs", .ownThread) struct WithheldVariablesTests {
    @Test func `serve passes no secrets or settings to its browser`() throws {
        let site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
        let file = site.folder.file("environment")
        let secrets = [
            "CLIENTCTL_PROXY": "none", "CLIENTCTL_PASSPHRASE": "geheim", "AWS_SECRET_ACCESS_KEY": "geheim",
            "AWS_PROFILE": "geheim",
            "GITHUB_TOKEN": "geheim", "DB_PASSWORD": "geheim", "my_api_key": "geheim",
        ]
        let serving = try ServeRun(
            [
                "--store", site.store, "--shell-version", "1.5.0", "--seed", site.folder.file("seed"), "--browser",
                "sh -c 'env >\(file).new; mv \(file).new \(file)'",
            ], environment: secrets.merging(["DISPLAY": ":7", "KEYBOARD": "de"]) { $1 })
        let deadline = ContinuousClock.now + .seconds(60)
        while access(file, F_OK) != 0, ContinuousClock.now < deadline {
            _ = try serving.program.wait(within: .milliseconds(10))
        }
        let text = String(decoding: try contents(ofFile: file), as: UTF8.self)
        _ = try serving.stop()
        for name in secrets.keys { #expect(!text.contains("\(name)="), "\(name)") }
        #expect(!text.contains("CLIENTCTL_"), "\(text)")
        for line in ["DISPLAY=:7", "KEYBOARD=de", "PATH="] { #expect(text.contains(line), "\(text)") }
    }

    /// The other commands of flags have this assertion in their own suites: `AfterPublishTests`, `GuardTests`, `HealthCommandTests`,
    /// `DegradedDeviceTests`, `ServePushTests`.
    @Test(arguments: ["sign-command", "channel-sign-command", "credential-command"])
    func `the command of a flag gets no variable of clientctl`(flag: String) throws {
        let site = try ChannelSite(withRoot: false)
        try site.publish("1.0.0").succeeded("published")
        let file = site.folder.file("environment")
        let line = "sh -c 'env >\(file).new; mv \(file).new \(file); exit 1'"
        let edit = ["--channel", "stable", "--version", "1.0.0", "--json", "--\(flag)", line]
        let variables = ["CLIENTCTL_PASSPHRASE": "horse", "CLIENTCTL_CHANNEL_KEY": site.key("channel"), "PIN": "1234"]
        let publish = ["publish", site.folder.file("web-1.0.0"), "--feed", site.feed, "--key", site.key("release")]
        switch flag {
        case "sign-command":
            try Clientctl.run(
                ["release", "pause", "--feed", site.feed, "--sign-public-key", site.pub("channel")] + edit,
                environment: variables.filter { $0.key != "CLIENTCTL_CHANNEL_KEY" }
            ).failed(78, "configInvalid")
        case "channel-sign-command":
            try Clientctl.run(
                publish + [
                    "--channel-sign-public-key", site.pub("channel"), "--channel", "beta", "--create", "--app-id",
                    ChannelSite.appId, "--min-shell",
                    "1.0.0", "--level", "1",
                ] + edit.dropFirst(2), environment: variables.filter { $0.key != "CLIENTCTL_CHANNEL_KEY" }
            ).failed(78, "configInvalid")
        case "credential-command":
            try Clientctl.run(
                ["release", "pause", "--feed", "s3://bucket/kiosk"] + edit,
                environment: variables.merging(["AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"]) { $1 }
            ).failed(78, "configInvalid")
        default: break
        }
        let text = String(decoding: try contents(ofFile: file), as: UTF8.self)
        #expect(text.contains("PIN=1234\n"))
        #expect(!text.contains("CLIENTCTL_") && !text.contains("horse"), "\(text)")
    }
}
