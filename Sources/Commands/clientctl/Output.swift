import BundleValues
import Glibc

/// Prints results on stdout, everything else on stderr.
///
/// This and `Log` are the only ways to both. They escape what does not print, whatever its source: no byte of a feed, a page or a
/// file name moves the cursor or forges a line.
enum Output {
    /// Prints the result: with `--json` one object and nothing else, otherwise lines for people.
    ///
    /// An answer that cannot be written ends a command that only answers with status 1. After a command that changed
    /// something (`afterChange`) that stands, so its status does too.
    static func give(json: Bool, afterChange: Bool = false, _ object: JSONObject, _ lines: [String]) {
        let bytes =
            json
            ? JSONWriter.bytes(of: .object(object), layout: .pretty)
            : lines.flatMap { Array("\(PrintableText.line($0))\n".utf8) }
        if write(bytes, to: 1) { return }
        if errno == EPIPE {
            // As any program ends whose reader has read enough.
            if afterChange { return }
            signal(SIGPIPE, SIG_DFL)
            kill(getpid(), SIGPIPE)
        }
        say("clientctl: the answer could not be written: \(String(cString: strerror(errno)))")
        if !afterChange { exit(FailureCode.internal.exitStatus) }
    }

    /// Prints one object as a line; false where nobody reads any more.
    static func giveLine(_ object: JSONObject) -> Bool {
        write(JSONWriter.bytes(of: .object(object)) + [UInt8(ascii: "\n")], to: 1)
    }

    /// Whether anybody reads what is printed still.
    static var isRead: Bool {
        var entry = pollfd(fd: 1, events: 0, revents: 0)
        return poll(&entry, 1, 0) <= 0
    }

    /// Prints a failure as JSON; `members` stand before it.
    static func failure(_ failure: UpdateFailure, beside members: JSONObject = [:]) {
        var object = members
        object["error"] = .object([
            "code": .string(failure.code.rawValue),
            "exit": .integer(Int(failure.code.exitStatus)),
            "message": .string(failure.message),
            "subject": .string(failure.subject),
        ])
        write(JSONWriter.bytes(of: .object(object), layout: .pretty), to: 1)
    }

    /// One line for people on stderr, in the form of this process's log.
    static func say(_ line: String) { Log.say(line) }

    /// Prints one line on stderr, after a prefix of this program.
    static func line(_ text: String, after prefix: StaticString = "") {
        write(Array("\(prefix)\(PrintableText.line(text))\n".utf8), to: 2)
    }

    /// Replaces the line of a terminal on stderr; nothing clears it.
    static func overwrite(with text: String) { write(Array("\r\u{1B}[K\(PrintableText.line(text))".utf8), to: 2) }

    @discardableResult
    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return false }
            done += count
        }
        return true
    }
}

/// A failure that is also an answer: its outcome stands beside the error in JSON.
struct FailureWithOutput: ClassifiedFailure {
    let failure: UpdateFailure
    let members: JSONObject
}
