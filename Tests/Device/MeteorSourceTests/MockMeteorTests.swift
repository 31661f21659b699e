import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// Runs the program MockMeteor.
@Suite("MockMeteor", .ownThread) struct MockMeteorTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test func `bundles a web folder in both layouts`() throws {
        let web = try folder.writeTree(["index.html": Array("<p>hello".utf8), "a.js": [1]], to: "web")
        let ending = try Program.run(
            [Built.mockMeteor, "bundle", web, folder.file("out"), "--layout", "both", "--version", "v1"],
            environment: [:])
        #expect(ending.status == 0)
        #expect(ending.text == "v1 1 files\n")
        let paths = try FolderSnapshot(of: folder.file("out")).paths
        #expect(
            paths == [
                "bundle", "bundle/app", "bundle/app/a.js", "bundle/index.html", "bundle/program.json", "server",
                "server/a.js", "server/index.html", "server/manifest.json",
            ])
    }

    @Test func `serves its demo, obeys commands and writes a seed`() throws {
        let commands = "versions\nserve version2\nserve version9\nfault 404 /a 2\nfault x /a\nnonsense\nquit\n"
        try folder.write(Array(commands.utf8), to: "commands")
        let line =
            "exec '\(Built.mockMeteor)' --demo --port 0 --write-seed '\(folder.file("seed"))' < '\(folder.file("commands"))'"
        let ending = try Program.run(["/bin/sh", "-c", line], environment: [:])
        #expect(ending.status == 0)
        let lines = ending.text.split(separator: "\n").map(String.init)
        #expect(lines.first == "Wrote the seed to \(folder.file("seed"))")
        #expect(lines[1].hasPrefix("Serving version1 of version1, version2, version3 at http://localhost:"))
        #expect(
            lines.dropFirst(2) == [
                "* version1", "  version2", "  version3", "Serving version2",
                "there is no version \"version9\" to serve; add it first", "404 at /a, 2 times",
                "\"x\" is no kind of fault; type \"help\".", "\"nonsense\" is no command; type \"help\".",
            ])
        let paths = try FolderSnapshot(of: folder.file("seed")).paths
        #expect(
            paths == ["app", "app/app.js", "app/motto.txt", "index.html", "merged-stylesheets.css", "program.json"])
    }
}
