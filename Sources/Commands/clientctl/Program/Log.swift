import ArgumentParser
import BundleCore
import BundleValues
import BundleShell
import CLibrary
import Synchronization

/// The log of this process, on standard error.
enum Log {
    private static let form = Mutex(LogLine.Form.text)

    /// Sets the form of all further lines.
    static func use(_ chosen: LogLine.Form) { form.withLock { $0 = chosen } }

    static func note(_ line: LogLine) {
        if line.level == .info && Output.detail == .warnings { return }
        switch form.withLock(\.self) {
        case .text: Output.line(line.text, lead: line.lead, in: line.level.ink)
        case .journal: Output.line(line.text, after: line.level.prefix)
        case .json: Output.line(line.json(at: .now))
        }
    }

    /// Writes a sentence with the event `message`, for callers without events of their own.
    static func say(_ text: String, level: LogLine.Level) {
        note(LogLine(level: level, event: "message", message: text))
    }

    /// Writes a usage error, which may have several lines. It is one line in JSON, or if an argument has unprintable characters, because the
    /// message may repeat them.
    static func usage(_ text: String) {
        let isPlain = CommandLine.arguments.allSatisfy { PrintableText.line($0) == $0 }
        let text = isPlain ? text : PrintableText.line(text)
        let form = form.withLock(\.self)
        if form == .json { return say(text, level: .warning) }
        let prefix = form == .journal ? LogLine.Level.warning.prefix : ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) where form == .text || !line.isEmpty {
            Output.line(String(line), after: prefix, lead: "error[\(FailureCode.usage.rawValue)]:", in: .red)
        }
    }

    /// Returns `journal` if the descriptor is connected to the journal (systemd.exec(5), `JOURNAL_STREAM`), otherwise `text`.
    static func sentences(journal: String?, of descriptor: Int32) -> LogLine.Form {
        var status = stat()
        guard let journal, fstat(descriptor, &status) == 0 else { return .text }
        return journal == "\(status.st_dev):\(status.st_ino)" ? .journal : .text
    }

    /// Sets the form of sentences by the connection of standard error.
    static func begin() { use(sentences(journal: getenv("JOURNAL_STREAM").map { String(cString: $0) }, of: 2)) }
}

/// The flags of commands that run for a long time.
struct LogOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Form of the log on standard error: text, or json for one object a line. With text, the journal also gets priorities (default: text).",
            valueName: "form"), completion: .list(["text", "json"]))
    var logFormat: String?

    /// Sets the form of the log by the flags.
    func begin() throws {
        switch logFormat {
        case nil, "text"?: break
        case "json"?: Log.use(.json)
        case let text?:
            throw ValidationError("--log-format is text or json, not \(UntrustedName.display(text)).")
        }
    }
}

/// One line of the log, independent of its form. It never contains a secret.
struct LogLine: Sendable {
    enum Level: Sendable {
        case error
        case warning
        case info

        var word: String {
            switch self {
            case .error: "error"
            case .warning: "warning"
            case .info: "info"
            }
        }

        var ink: Ink? {
            switch self {
            case .error: .red
            case .warning: .yellow
            case .info: nil
            }
        }

        /// The prefix of a line for the journal, from sd-daemon(3).
        var prefix: StaticString {
            switch self {
            case .error: "<3>"
            case .warning: "<4>"
            case .info: "<6>"
            }
        }
    }

    enum Form: Sendable {
        case text
        /// Text after a priority that the journal parses.
        case journal
        case json
    }

    let level: Level
    /// The kind of event, for programs.
    let event: String
    /// A sentence for people.
    let message: String
    /// The client, as the member `version` of JSON output.
    var version: String?
    /// The code of a failure.
    var code: String?

    /// The sentence after its kind: an error with its code, which has a page in the guide, a warning or information.
    var text: String { "\(lead) \(message)" }

    /// The kind at the start of the text.
    var lead: String { code.map { "error[\($0)]:" } ?? "\(level == .info ? "clientctl" : level.word):" }

    /// Returns the line as one JSON object.
    func json(at time: Timestamp) -> String {
        var object: JSONObject = [
            "time": .string(time.description), "level": .string(level.word), "event": .string(event),
            "message": .string(message),
        ]
        if let version { object["version"] = .string(version) }
        if let code { object["code"] = .string(code) }
        return String(decoding: JSONWriter.bytes(of: .object(object)), as: UTF8.self)
    }
}

extension LogLine {
    /// Creates a line about a failure. Failures of the network are warnings.
    init(_ failure: UpdateFailure, event: String = "failed", version: String? = nil) {
        let isPassing = [.networkUnavailable, .httpStatus].contains(failure.code)
        self.init(
            level: isPassing ? .warning : .error, event: event, message: failure.message, version: version,
            code: failure.code.rawValue)
    }

    /// Creates a line about an event of a shell; nil if the log does not need the event. `isTimed` is true if new clients wait for activation
    /// windows.
    init?(_ event: ShellEvent, isTimed: Bool) {
        switch event {
        case .updateAvailable(let name):
            let next =
                isTimed
                ? "it is shown in an activation window"
                : "it is shown when the page loads again, or by itself with --activation-window"
            self.init(.info, event: "updateAvailable", message: "\(name) is ready; \(next)", name: name)
        case .installed(let name, let bytes, let size):
            let amounts = "\(ByteCount(bytes: bytes)) downloaded for \(ByteCount(bytes: size)) of files"
            self.init(.info, event: "installed", message: "\(name) is installed (\(amounts))", name: name)
        // A failed check has its own event, and metrics count all checks and downloaded bytes.
        case .checked, .downloading: return nil
        case .failed(let failure): self.init(failure)
        case .launched(let name, let isTrial):
            let client = name == .embedded ? "the seed" : "\(name)"
            self.init(.info, event: "launched", message: "\(client) is shown\(isTrial ? ", on trial" : "")", name: name)
        case .confirmed(let name):
            self.init(.info, event: "confirmed", message: "\(name) confirmed its start", name: name)
        case .complained(let name, let complaint):
            self.init(.warning, event: "complained", message: "\(name): the page said: \(complaint)", name: name)
        case .unconfirmed(let name, let what):
            self.init(
                .warning, event: "unconfirmed",
                message:
                    "\(name) did not confirm this start, but confirmed an earlier one: \(what). A newer client may have changed its data.",
                name: name)
        case .blank(let name, isOver: false):
            self.init(
                level: .warning, event: "blankScreen",
                message: "\(name) confirmed its start and shows nothing. It stays, because it is not on trial.",
                version: name.shortDescription, code: FailureCode.blankScreen.rawValue)
        case .blank(let name, isOver: true):
            self.init(.info, event: "screenFilled", message: "\(name) shows something again", name: name)
        case .rolledBack(let name, _, let failure):
            self.init(failure, event: "rolledBack", version: name.shortDescription)
        }
    }

    private init(_ level: Level, event: String, message: String, name: ClientName) {
        self.init(level: level, event: event, message: message, version: name.shortDescription)
    }
}
