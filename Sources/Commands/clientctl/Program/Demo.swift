import ArgumentParser
import BundleDisk
import BundleValues
import CLibrary

/// `clientctl demo`.
struct Demo: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show an update, a release that does not start, and its rollback.",
        discussion: """
            Works in a temporary folder, which it removes at the end. It prints each
            command and waits for Enter between the steps. Open the printed address in a
            browser to watch the page change. With --yes, it needs neither Enter nor a
            browser: `clientctl confirm` and `clientctl fail` stand for the page.

            Examples:
              clientctl demo
              clientctl demo --yes
            """)

    @Option(help: ArgumentHelp("Port of the page, for the browser (default: any free port).", valueName: "n"))
    var port: String?

    @Flag(help: "Do not wait for Enter, and need no browser.")
    var yes = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let port = try FlagValue.port(port) ?? 0
        guard yes || isatty(0) == 1 else {
            throw ValidationError("This process has no terminal to wait at: give --yes.")
        }
        try HeldSignals.holding([SIGINT, SIGTERM, SIGHUP]) { signals in
            do {
                let walk = try DemoWalk(port: port, isAlone: yes, output: common.json ? 2 : 1, signals: signals)
                defer { walk.end() }
                try walk.run()
            } catch is DemoWalk.Stopped {}
        }
        Output.give(
            json: common.json, ["outcome": .string("shown")],
            lines: ["", "The folder is removed. `clientctl init` begins with your own page."])
    }
}

/// The steps of the demonstration, in a temporary folder.
private final class DemoWalk {
    /// A signal asked for the end.
    struct Stopped: Error {}

    private let port: Int
    private let isAlone: Bool
    /// The descriptor for what the demonstration shows.
    private let output: Int32
    private let signals: HeldSignals
    private let place: TemporaryDirectory
    /// The environment of the commands: no setting of this machine has an effect.
    private let settings: [String: String]
    private var server: StartedProgram?

    init(port: Int, isAlone: Bool, output: Int32, signals: HeldSignals) throws {
        (self.port, self.isAlone, self.output, self.signals) = (port, isAlone, output, signals)
        place = try TemporaryDirectory()
        let path = place.directory.path
        guard chdir(path) == 0 else { throw DiskError("open", at: path, code: errno) }
        settings = [FlagNames.variable("config"): "\(path)/settings.json"]
        try place.directory.replaceFile("settings.json", with: Array("{}".utf8), mode: 0o600)
        try place.directory.makeDirectory("dist", mode: 0o755)
    }

    /// Ends the server, before the folder is removed.
    func end() {
        server?.kill()
        _ = server?.wait()
        _ = chdir("/")
    }

    func run() throws {
        say("A publisher has a key, and a folder with a page that works: it calls startupDidComplete().")
        try command("keys generate --out release")
        try publish("1.0.0", works: true)
        if isAlone {
            try update(to: "1.0.0")
            try start()
        } else {
            say("A device follows the feed, verifies each release, and serves the page to a browser on this machine.")
            server = try begin(
                "serve --manifest feed/manifest.json --trust release.pub.pem --store store --check-interval 1s "
                    + "--startup-timeout 5s --activation-window always --port \(port)")
        }
        try pause("Open the address that the command prints in a browser.", before: "an update")

        try publish("1.1.0", works: true)
        if isAlone {
            try update(to: "1.1.0")
            try start()
        }
        try pause("Within seconds, the page shows 1.1.0.", before: "a release that does not start")

        try publish("1.2.0", works: false)
        if isAlone {
            try update(to: "1.2.0")
            for _ in 1...2 {
                try fail()
                try start()
            }
        }
        try pause(
            "The page shows 1.2.0, and after five seconds 1.1.0 again. A second try ends in the same way.",
            before: "the state of the device")
        try command("status --store store")
    }

    private func publish(_ version: String, works: Bool) throws {
        let color = works ? "#1d6f42" : "#a32020"
        let text = works ? "This page works." : "This page never reports that it works."
        let script = works ? "<script>WebAppLocalServer.startupDidComplete()</script>" : ""
        let page =
            "<!doctype html><meta charset=utf-8><title>\(version)</title>"
            + "<body style='font:8vw sans-serif;text-align:center;color:#fff;background:\(color)'>"
            + "<h1>\(version)</h1><p style='font-size:3vw'>\(text)</p>\(script)\n"
        try place.directory.directory("dist").replaceFile("index.html", with: Array(page.utf8), mode: 0o644)
        say("The folder dist has the page of \(version). \(text)")
        try command("publish dist --version \(version) --feed feed --key release.key.pem")
    }

    // MARK: Without a browser

    private func update(to version: String) throws {
        say("A device gets \(version): it verifies the signature, and installs it beside the old version.")
        try command("install --manifest feed/manifest.json --trust release.pub.pem --store store")
    }

    /// Launches the next client, and confirms its start in place of its page.
    private func start() throws {
        let (version, token) = try launch()
        say("The page works, so it confirms its start.")
        try command("confirm --store store --version \(version) --token \(token)")
    }

    private func fail() throws {
        let (version, token) = try launch()
        say("The page of \(version) does not confirm its start. It gets a second try; then the device blocks it.")
        try command("fail --store store --version \(version) --token \(token) --reason timeout")
    }

    private func launch() throws -> (version: String, token: String) {
        say("The shell of the device starts the next client.")
        let (ending, output) = try StartedProgram.run(
            words("launch --store store --json"), adding: settings, for: .seconds(60),
            longestOutput: 1 << 20)
        guard ending == .exited(0), let answer = try JSONScanner.parse(output, maximumBytes: 1 << 20).objectValue,
            let version = answer["version"]?.stringValue, let token = answer["token"]?.stringValue
        else { throw ExitCode.failure }
        say("It shows \(version).")
        return (version, token)
    }

    // MARK: Commands

    /// Prints a command, and returns the words that run it.
    private func words(_ line: String) -> [String] {
        print("$ clientctl \(line)")
        return ["/proc/self/exe"] + line.split(separator: " ").map(String.init)
    }

    private func begin(_ line: String) throws -> StartedProgram {
        if signals.arePending { throw Stopped() }
        return try StartedProgram(words(line), adding: settings, output: output)
    }

    private func command(_ line: String) throws {
        guard try begin(line).wait() == .exited(0) else { throw ExitCode.failure }
    }

    private func say(_ sentence: String) { for line in ["", sentence] { print(line) } }

    private func print(_ line: String) {
        if output == 2 { Output.line(line) } else { Output.give(json: false, [:], lines: [line]) }
    }

    /// Waits for Enter if a browser shows the page.
    private func pause(_ sight: String, before next: String) throws {
        if isAlone { return say("Next: \(next).") }
        say("\(sight) Then press Enter for \(next).")
        while true {
            if signals.arePending { throw Stopped() }
            var polled = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
            if poll(&polled, 1, 100) <= 0 { continue }
            var byte: UInt8 = 0
            if read(0, &byte, 1) != 1 { throw Stopped() }
            if byte == UInt8(ascii: "\n") { return }
        }
    }
}
