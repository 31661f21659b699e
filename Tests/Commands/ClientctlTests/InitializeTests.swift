import BundleTestTraits
import BundleTesting
import BundleValues
import Glibc
import Testing

/// `clientctl init` at a terminal, and after an interruption.
@Suite(.ownThread) struct InitializeTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var files: [String] { get throws { try TreeSnapshot(of: folder.path).paths } }

    /// Runs `init` at a pseudo terminal, and types an answer after each question. An answer of nil ends the input.
    private func initialize(
        _ arguments: [String] = [], answers: [(question: String, answer: String?)]
    ) throws -> Outcome {
        let terminal = try PseudoTerminal()
        let program = try Program(
            ["sh", "-c", #"exec setsid -c "$@" <"$0""#, terminal.path, Clientctl.path, "init"] + arguments,
            environment: Clientctl.environment(), in: folder.path)
        for (question, answer) in answers {
            try terminal.read(until: "\(question):")
            try terminal.enter(answer.map { "\($0)\n" } ?? "\u{4}")
        }
        return Outcome(try #require(try program.wait(within: .seconds(60)), "init does not end"))
    }

    @Test func `asks for each value at a terminal, with its default`() throws {
        let made = try initialize(answers: [
            ("Application, such as com.example.kiosk [none]", "com.example.kiosk"),
            ("Feed, a folder or s3://bucket/prefix [feed]", ""), ("Channel [stable]", "beta"),
            ("Private key [release.key.pem]", ""), ("Passphrase for release.key.pem, empty for none", ""),
        ])
        #expect(made.status == 0, "\(made.errors)")
        #expect(
            made.text.contains(
                "clientctl serve --channel feed/channels/beta.json --trust release.pub.pem --store store"))
        #expect(try files == ["clientctl.json", "release.key.pem", "release.pub.pem"])
        let project = try JSONScanner.parse(contents(ofFile: folder.file("clientctl.json")), maximumBytes: 4096)
        for (name, value) in [
            ("app-id", "com.example.kiosk"), ("feed", "feed"), ("key", "release.key.pem"), ("channel", "beta"),
            ("channel-key", "release.key.pem"),
        ] {
            #expect(project.objectValue?[name] == .string(value), "\(name)")
        }
    }

    @Test func `asks only for values without a flag`() throws {
        let flags = ["--app-id", "com.example.kiosk", "--feed", "s3://bucket/kiosk", "--key", "kiosk.key.pem"]
        let made = try initialize(
            flags, answers: [("Channel [stable]", "none"), ("Passphrase for kiosk.key.pem, empty for none", "")])
        #expect(made.status == 0, "\(made.errors)")
        #expect(made.text.contains("/manifest.json --trust kiosk.pub.pem"))
    }

    @Test(arguments: [nil, "kiosk"])
    func `writes nothing if the input ends or an answer is invalid`(answer: String?) throws {
        let ended = try initialize(answers: [("Application, such as com.example.kiosk [none]", answer)])
        #expect(ended.status == 64, "\(ended.errors)")
        #expect(try files == [])
    }

    @Test func `completes the key of an interrupted run`() throws {
        try Clientctl.run(["keys", "generate", "--out", folder.file("release"), "--json"]).succeeded()
        let half = try contents(ofFile: folder.file("release.pub.pem"))
        try Clientctl.stock(["rm", folder.file("release.pub.pem")])
        try Clientctl.stock(["touch", folder.file("release.pub.pem.new"), folder.file("clientctl.json.new")])
        let made = try Clientctl.run(["init", "--yes", "--json"], in: folder.path).succeeded("created")
        #expect(made["keyCreated"] == .bool(false))
        #expect(try contents(ofFile: folder.file("release.pub.pem")) == half)
        #expect(try files == ["clientctl.json", "release.key.pem", "release.pub.pem"])
    }
}

/// A pseudo terminal for one program.
final class PseudoTerminal {
    private let master: Int32
    /// Keeps the terminal open before the program opens it and after it ends.
    private let slave: Int32
    /// The device of the terminal.
    let path: String

    init() throws {
        var (master, slave) = (Int32(-1), Int32(-1))
        let name = openpty(&master, &slave, nil, nil, nil) == 0 ? ttyname(slave).map { String(cString: $0) } : nil
        (self.master, self.slave, path) = (master, slave, try #require(name, "no pseudo terminal"))
    }

    deinit {
        close(slave)
        close(master)
    }

    /// Reads the output of the program on the terminal until it ends with `text`.
    func read(until text: String) throws {
        var printed: [UInt8] = []
        while !printed.ends(with: text.utf8) {
            var polled = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            let isReadable = poll(&polled, 1, 60_000) == 1
            try #require(isReadable, "only \(String(decoding: printed, as: UTF8.self))")
            var byte: UInt8 = 0
            let count = Glibc.read(master, &byte, 1)
            try #require(count == 1)
            printed.append(byte)
        }
    }

    func enter(_ text: String) throws {
        let written = write(master, text, text.utf8.count)
        try #require(written == text.utf8.count)
    }
}

extension Sequence where Element == UInt8 {
    fileprivate func ends(with end: some Collection<UInt8>) -> Bool {
        Array(self).suffix(end.count).elementsEqual(end)
    }
}
