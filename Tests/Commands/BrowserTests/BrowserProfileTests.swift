import BundleTestTraits
import BundleTesting
import Glibc
import Testing

/// The profile folder that `clientctl serve` gives its browser.
@Suite(.ownThread) struct BrowserProfileTests {
    let kiosk: Kiosk
    private let log: String

    init() throws {
        kiosk = try Kiosk()
        log = kiosk.folder.file("starts")
    }

    /// Returns a browser command that records its profile and its content, leaves a file and keeps running.
    private func browser() throws -> String {
        let script = """
            #!/bin/sh
            echo "$1 $(ls "$1" | tr -d '\\n')" >>'\(log)'
            echo left >"$1/left"
            exec sleep 90
            """
        let path = try kiosk.folder.write(bytes(script), to: "browser")
        chmod(path, 0o755)
        return "\(path) {profile} {url}"
    }

    private func serve(_ more: [String] = []) throws -> Serving { try kiosk.serve(["--browser", browser()] + more) }

    /// Returns the profile of each start so far and its content.
    private func starts() throws -> [(profile: String, content: String)] {
        guard let text = try? contents(ofFile: log) else { return [] }
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map { line in
            let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
            return (words[0], words.count > 1 ? words[1] : "")
        }
    }

    private func wait(starts count: Int) throws -> (profile: String, content: String) {
        let deadline = ContinuousClock.now + Browser.patience
        while try starts().count < count {
            try #require(
                ContinuousClock.now < deadline, "the browser was not started \(count) times")
            poll(nil, 0, 20)
        }
        return try starts()[count - 1]
    }

    private func end(_ serving: Serving) throws {
        serving.program.send(SIGTERM)
        #expect(try serving.program.wait(within: Browser.patience)?.status == 0)
    }

    private func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    @Test func `serve keeps the browser profile on a device that requires no session`() throws {
        let first = try serve()
        _ = try wait(starts: 1)
        try end(first)
        let serving = try kiosk.serve(port: first.port, ["--browser", browser()])
        let second = try wait(starts: 2)
        #expect(second.content == "left")
        #expect(try starts()[0].profile == second.profile)
        try end(serving)
        #expect(isThere(second.profile))
    }

    @Test func `serve starts a new browser profile after a session and removes the old one`() throws {
        let serving = try serve()
        let open = try wait(starts: 1)
        try kiosk.login()
        try kiosk.on("session logout")
        let guests = try wait(starts: 2)
        #expect(guests.content.isEmpty && guests.profile != open.profile)
        #expect(!isThere(open.profile))
        try kiosk.login()
        try kiosk.on("session logout")
        let others = try wait(starts: 3)
        #expect(others.content.isEmpty && others.profile != guests.profile)
        #expect(!isThere(guests.profile))
        try end(serving)
        #expect(!isThere(others.profile))
        #expect(!isThere(open.profile))
    }

    @Test func `serve removes the browser profile of a killed run and keeps folders without its mark`() throws {
        try kiosk.login()
        let first = try serve()
        let killed = try wait(starts: 1)
        first.program.send(SIGKILL)
        _ = try first.program.wait(within: Browser.patience)
        #expect(isThere(killed.profile))
        let parent = String(killed.profile.split(separator: "/").dropLast(2).joined(separator: "/"))
        let other = "/\(parent)/browser-\(first.port)-of-an-operator"
        mkdir(other, 0o700)
        let second = try kiosk.serve(port: first.port, ["--browser", browser()])
        let next = try wait(starts: 2)
        #expect(next.content.isEmpty)
        #expect(!isThere(killed.profile))
        #expect(isThere(other))
        try end(second)
        #expect(isThere(other))
    }

    @Test func `serve keeps the browser profile over sessions with --session-profile keep`() throws {
        let serving = try serve(["--session-profile", "keep"])
        _ = try wait(starts: 1)
        try kiosk.login()
        try kiosk.on("session logout")
        let next = try wait(starts: 2)
        #expect(next.content == "left")
        try end(serving)
    }

    @Test func `--session-profile requires {profile} in --browser`() throws {
        let base = ["serve", "--store", kiosk.store, "--shell-version", "1.5.0", "--seed", kiosk.seed]
        let missing = try kiosk.run(base + ["--browser", "sleep 600", "--session-profile", "fresh"], expecting: 64)
        #expect(missing.errors.contains("--session-profile needs {profile} in --browser"))
        let unknown = try kiosk.run(base + ["--browser", browser(), "--session-profile", "other"], expecting: 64)
        #expect(unknown.errors.contains("--session-profile is fresh or keep"))
    }
}
