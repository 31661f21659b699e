import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

@Suite("Browser environment", .ownThread) struct WithheldVariablesTests {
    @Test func `serve passes no secrets or settings to its browser`() throws {
        let site = try Site()
        try site.folder.writeTree(Site.client("seed"), to: "seed")
        let file = site.folder.file("environment")
        let secrets = [
            "CLIENTCTL_PROXY": "none", "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_PROFILE": "geheim",
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
        for line in ["DISPLAY=:7", "KEYBOARD=de", "PATH="] { #expect(text.contains(line), "\(text)") }
    }
}
