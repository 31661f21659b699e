import BundleValues
import CLibrary
import Synchronization

extension Environment {
    /// The environment of commands, which print what they log.
    static let command = Environment(log: { Output.warn($0) })
}

/// Prints results on standard output and everything else on standard error.
///
/// Only `Output` and `Log` write to them. They escape unprintable characters, so that no byte of a feed, a page or a file name moves
/// the cursor or forges a line.
enum Output {
    /// What this process prints on standard error. Each case includes the ones before it.
    enum Detail: Int {
        case warnings, notes, requests
    }

    private static let chosen = Mutex(Detail.notes)

    static var detail: Detail { chosen.withLock(\.self) }

    static func use(_ detail: Detail) { chosen.withLock { $0 = detail } }

    /// Prints a sentence about each request; nil if those are not printed.
    static var requestLog: (@Sendable (String) -> Void)? { detail == .requests ? { @Sendable in say($0) } : nil }

    /// Prints the result: `object` with `json`, otherwise `lines`.
    ///
    /// If the output cannot be written, a read-only command exits with status 1. A command that changed something (`afterChange`) keeps its
    /// status, because its change is kept.
    static func give(json: Bool, afterChange: Bool = false, _ object: JSONObject, lines: [String]) {
        let isColored = !json && Ink.isShown(on: 1)
        let bytes =
            json
            ? JSONWriter.bytes(of: .object(withSettings(object)), layout: .pretty)
            : lines.map(PrintableText.line).flatMap { Array("\(isColored ? Ink.result($0) : $0)\n".utf8) }
        if write(bytes, to: 1) { return }
        if errno == EPIPE {
            if afterChange { return }
            // Other programs also end this way if their reader has closed the pipe.
            signal(SIGPIPE, SIG_DFL)
            kill(getpid(), SIGPIPE)
        }
        warn("the output cannot be written: \(String(cString: strerror(errno)))")
        if !afterChange { exit(FailureCode.internal.exitStatus) }
    }

    /// Prints one object as a line. Returns false if the reader has closed the pipe.
    static func giveLine(_ object: JSONObject) -> Bool {
        write(JSONWriter.bytes(of: .object(object)) + [UInt8(ascii: "\n")], to: 1)
    }

    /// Whether standard output still has a reader.
    static var isRead: Bool {
        var entry = pollfd(fd: 1, events: 0, revents: 0)
        return poll(&entry, 1, 0) <= 0
    }

    /// Prints a failure as JSON, after `members`.
    static func failure(_ failure: UpdateFailure, beside members: JSONObject = [:]) {
        var object = members
        object["error"] = .object([
            "code": .string(failure.code.rawValue),
            "exit": .integer(Int(failure.code.exitStatus)),
            "message": .string(failure.message),
            "subject": .string(failure.subject),
        ])
        write(JSONWriter.bytes(of: .object(withSettings(object)), layout: .pretty), to: 1)
    }

    /// Returns `object` with the project file, if that set a flag of this run.
    private static func withSettings(_ object: JSONObject) -> JSONObject {
        guard ProjectFile.isUsed else { return object }
        var object = object
        object["settings"] = .string(ProjectFile.name)
        return object
    }

    /// Prints a sentence on standard error, in the form of the log.
    static func say(_ sentence: String) { Log.say(sentence, level: .info) }

    /// Prints a warning on standard error, in the form of the log.
    static func warn(_ sentence: String) { Log.say(sentence, level: .warning) }

    /// Prints one line on standard error, after a trusted prefix. On a terminal, `lead` at its start has the color `ink`.
    static func line(_ text: String, after prefix: StaticString = "", lead: String = "", in ink: Ink? = nil) {
        var text = PrintableText.line(text)
        if let ink, text.hasPrefix(lead), Ink.isShown(on: 2) { text = ink.paint(lead) + text.dropFirst(lead.count) }
        write(Array("\(prefix)\(text)\n".utf8), to: 2)
    }

    /// Replaces the current line of the terminal on standard error. Empty text clears it.
    static func overwrite(with text: String) { write(Array("\r\u{1B}[K\(PrintableText.line(text))".utf8), to: 2) }

    @discardableResult
    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes { CLibrary.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return false }
            done += count
        }
        return true
    }
}

/// A failure with the JSON members of a result, such as its outcome.
struct FailureWithOutput: ClassifiedFailure {
    let failure: UpdateFailure
    let members: JSONObject
}
