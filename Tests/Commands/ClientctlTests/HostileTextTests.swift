import BundleFormats
import ArchiveSource
import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// Text of an attacker that reaches terminals and logs.
@Suite(.ownThread) struct HostileTextTests {
    /// Characters that move a cursor, hide text or end a line. A line feed appears only in JSON, as an escape.
    private static let characters: [(name: String, text: String)] =
        (0x01...0x1F).map { ("C0 control \($0)", String(Unicode.Scalar(UInt8($0)))) }
        + (0x7F...0x9F).map { ("control \($0)", String(Unicode.Scalar(UInt8($0)))) }
        + [
            ("soft hyphen", "\u{AD}"), ("Arabic letter mark", "\u{61C}"), ("Hangul filler", "\u{3164}"),
            ("zero width space", "\u{200B}"), ("zero width joiner", "\u{200D}"), ("left-to-right mark", "\u{200E}"),
            ("right-to-left override", "\u{202E}"), ("isolate", "\u{2066}"), ("word joiner", "\u{2060}"),
            ("line separator", "\u{2028}"), ("paragraph separator", "\u{2029}"), ("byte order mark", "\u{FEFF}"),
            ("variation selector", "\u{FE0F}"), ("private use", "\u{E000}"), ("private use plane", "\u{10FFFD}"),
            ("tag", "\u{E0041}"), ("noncharacter", "\u{FFFE}"),
        ]

    private static let text =
        "x\u{1B}[2K\u{1B}[1A\nclientctl: verified 9.9.9 \u{1B}]52;c;aGk=\u{07} "
        + characters.map { "\($0.text)|" }.joined()

    private let site: ChannelSite

    init() throws { site = try ChannelSite() }

    private func expectPrintable(_ shown: String, _ what: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for (name, text) in Self.characters where text != "\n" {
            #expect(
                !shown.unicodeScalars.contains(text.unicodeScalars.first ?? "x"), "\(what): \(name)",
                sourceLocation: sourceLocation)
        }
        #expect(!shown.split(separator: "\n").contains { $0.hasPrefix("clientctl: verified") }, "\(what): \(shown)")
    }

    private func expectPrintable(_ outcome: Outcome, _ what: String, sourceLocation: SourceLocation = #_sourceLocation)
    {
        expectPrintable(outcome.text, "stdout of \(what)", sourceLocation: sourceLocation)
        expectPrintable(outcome.errors, "stderr of \(what)", sourceLocation: sourceLocation)
    }

    private var channel: String { "\(site.feed)/channels/stable.json" }

    private func device(_ command: String) -> [String] {
        [
            command, "--channel", channel, "--trust", site.pinned, "--store", site.folder.file("store-kiosk"),
            "--shell-version", "1.5.0", "--device-id", "kiosk",
        ]
    }

    /// Waits until the log of a `serve` contains `word`. Returns the log.
    private func log(of serving: ServeRun, with word: String) throws -> String {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !serving.program.printed().errors.contains(word), ContinuousClock.now < deadline {
            _ = try serving.program.wait(within: .milliseconds(10))
        }
        return try serving.stop().errors
    }

    @Test func `prints no text of a trust root with invalid signatures`() throws {
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.install("kiosk").succeeded("installed")
        let first = try TrustRootFormat.parse(contents(ofFile: site.pinned))
        var root = first.claims
        root.version = 2
        root.appId = Self.text
        var forged = TrustRootFormat.envelope(root)
        forged.signatures = first.envelope.signatures
        try site.folder.write(forged.document, to: "feed/trust/2.json")

        let update = ["trust", "update", site.pinned, "--feed", site.feed]
        for arguments in [device("install"), device("check"), update] {
            for form in [[], ["--json"]] {
                let refused = try Clientctl.run(arguments + form)
                #expect(refused.status == 20, "\(arguments): \(refused.errors)")
                expectPrintable(refused, arguments[0])
                #expect(!refused.errors.contains("9.9.9"), "\(refused.errors)")
                #expect(!refused.text.contains("9.9.9"), "\(refused.text)")
            }
        }
        let doctor = ["--store", site.folder.file("store-kiosk"), "--trust", site.pinned, "--channel", channel]
        for form in [[], ["--json"]] {
            let outcome = try Clientctl.run(["doctor", "--port", "0"] + doctor + form)
            expectPrintable(outcome, "doctor")
            #expect(!outcome.text.contains("9.9.9") && !outcome.errors.contains("9.9.9"))
        }
        let serving = try ServeRun(Array(device("serve").dropFirst()) + ["--check-interval", "1s"])
        let log = try log(of: serving, with: "trust root 2")
        #expect(log.contains("trust root 2") && !log.contains("9.9.9"), "\(log)")
    }

    @Test func `escapes text that a channel key signed on terminals, in logs and in JSON`() throws {
        try site.publish("1.0.0", ["--rollout", "100%"])
        try site.publish("1.1.0", ["--rollout", "100%"])
        try site.install("kiosk").succeeded("installed")
        try site.release("recall", "--version", "1.1.0", "--reason", Self.text).succeeded()
        let place = ["--feed", site.feed, "--channel", "stable"]
        let store = ["--store", site.folder.file("store-kiosk"), "--shell-version", "1.5.0"]
        for arguments in [
            device("check") + ["--explain"], device("install"), ["status"] + store, ["list"] + store.prefix(2),
            ["channel", "list"] + place, ["channel", "log"] + place, ["inspect", channel],
            ["release", "resume", "--version", "1.1.0", "--channel-key", site.key("channel")] + place,
        ] {
            for form in [[], ["--json"]] {
                let outcome = try Clientctl.run(arguments + form)
                expectPrintable(outcome, arguments[0])
                if arguments[0] == "status", form.isEmpty {
                    #expect(outcome.text.contains("verified 9.9.9"), "\(outcome.text)")
                }
            }
        }
        let listed = try Clientctl.run(["channel", "list", "--json"] + place).succeeded()
        let recall = listed["recalled"]?.arrayValue?.first?.objectValue
        #expect(recall?["reason"]?.stringValue == Self.text)
        for form in ["text", "json"] {
            let serving = try ServeRun(
                Array(device("serve").dropFirst()) + ["--check-interval", "1s", "--log-format", form],
                wrapper: ["sh", "-c", "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"", "sh"])
            _ = try serving.loadPage()
            expectPrintable(try serving.stop().errors, "log of serve, \(form)")
        }
    }

    @Test func `escapes file names and arguments in messages`() throws {
        let name = "\u{202E}x\u{9B}y\nclientctl: verified"
        try site.folder.writeTree(["index.html": bytes("<!doctype html>"), "\(name).pem": bytes("x")], to: "web-1.0.0")
        for form in [[], ["--json"]] {
            expectPrintable(
                try Clientctl.run(
                    ["publish", site.folder.file("web-1.0.0"), "--version", "1.0.0", "--feed", site.feed] + form),
                "publish")
            expectPrintable(try Clientctl.run(["inspect", site.folder.file(name)] + form), "inspect")
            expectPrintable(try Clientctl.run(["verify", "--store", name] + form), "verify")
            expectPrintable(try Clientctl.run(["install", "--trust", name, "--\(name)"] + form), "install")
        }
    }
}
