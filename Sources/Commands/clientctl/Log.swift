import ArgumentParser
import BundleCore
import BundleValues
import ClientShell
import Glibc
import Synchronization

/// The log of this process, on standard error. The journal, or the owner of the file, decides how long it is kept.
enum Log {
    private static let form = Mutex(LogLine.Form.text)

    /// Chooses the form of every line from now on.
    static func use(_ chosen: LogLine.Form) { form.withLock { $0 = chosen } }

    /// Writes a line.
    static func note(_ line: LogLine) {
        switch form.withLock(\.self) {
        case .text: Output.line(LogLine.lead + line.message)
        case .journal: Output.line(LogLine.lead + line.message, after: line.level.prefix)
        case .json: Output.line(line.json(at: .now))
        }
    }

    /// Writes a sentence of a caller that knows no events, as a warning.
    static func say(_ text: String) {
        note(LogLine(level: .warning, event: "message", message: text.dropping(prefix: LogLine.lead) ?? text))
    }

    /// Writes a usage error, whose message may have several lines. It has one line in JSON, and where an argument has characters that do
    /// not print, which the message may repeat.
    static func usage(_ text: String) {
        let isPlain = CommandLine.arguments.allSatisfy { PrintableText.line($0) == $0 }
        let text = isPlain ? text : PrintableText.line(text)
        let form = form.withLock(\.self)
        if form == .json { return say(text) }
        let prefix = form == .journal ? LogLine.Level.warning.prefix : ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) where form == .text || !line.isEmpty {
            Output.line(String(line), after: prefix)
        }
    }

    /// The form of sentences here: for the journal, where standard error is connected to it (systemd.exec(5), `JOURNAL_STREAM`).
    static func sentences(journal: String?, of descriptor: Int32) -> LogLine.Form {
        var status = stat()
        guard let journal, fstat(descriptor, &status) == 0 else { return .text }
        return journal == "\(status.st_dev):\(status.st_ino)" ? .journal : .text
    }

    /// Writes sentences as they are wanted here.
    static func begin() { use(sentences(journal: getenv("JOURNAL_STREAM").map { String(cString: $0) }, of: 2)) }
}

/// Flags of what runs for long.
struct LogOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "text (the default) or json: one object a line on standard error. The journal gets priorities with text.",
            valueName: "form"))
    var logFormat: String?

    /// Writes the log as it is wanted.
    func begin(_ settings: Settings) throws {
        switch try settings.optional("log-format", logFormat) {
        case nil, "text"?: break
        case "json"?: Log.use(.json)
        case let text?:
            throw ValidationError("--log-format is text or json, not \(UntrustedName.display(text)).")
        }
    }
}

/// One line of the log, before it has a form. Nothing secret is ever in it.
struct LogLine: Sendable {
    /// How much it matters.
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

        /// What stands in front of a line for the journal, by the numbers of sd-daemon(3).
        var prefix: StaticString {
            switch self {
            case .error: "<3>"
            case .warning: "<4>"
            case .info: "<6>"
            }
        }
    }

    /// What a line looks like.
    enum Form: Sendable {
        /// A sentence.
        case text
        /// A sentence behind its priority, as the journal takes it.
        case journal
        /// One JSON object.
        case json
    }

    let level: Level
    /// What kind of thing happened, a word for programs.
    let event: String
    /// A sentence for people.
    let message: String
    /// The client it is about, as `version` in answers.
    var version: String?
    /// The public reason of a failure.
    var code: String?

    /// What stands in front of sentences.
    static let lead = "clientctl: "

    /// The line as one JSON object.
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
    /// Why something failed.
    init(_ failure: UpdateFailure, event: String = "failed", version: String? = nil) {
        let isPassing = [.networkUnavailable, .httpStatus].contains(failure.code)
        self.init(
            level: isPassing ? .warning : .error, event: event, message: failure.message, version: version,
            code: failure.code.rawValue)
    }

    /// What happened in a shell; nil where that is nothing for the log. `isTimed` where new clients wait for activation windows.
    init?(_ event: ShellEvent, isTimed: Bool) {
        switch event {
        case .updateAvailable(let name):
            let next = isTimed ? "it is shown in an activation window" : "the page decides when to show it"
            self.init(.info, "updateAvailable", "\(name) is ready; \(next)", name)
        // A failed one is told by itself, and metrics count them all.
        case .checked: return nil
        case .failed(let failure): self.init(failure)
        case .launched(let name, let isTrial):
            self.init(.info, "launched", "\(name) is shown\(isTrial ? ", on trial" : "")", name)
        case .confirmed(let name): self.init(.info, "confirmed", "\(name) confirmed its start", name)
        case .complained(let name, let complaint):
            self.init(.warning, "complained", "\(name): the page said: \(complaint)", name)
        case .unconfirmed(let name, let what):
            self.init(
                .warning, "unconfirmed",
                "\(name) has not confirmed this start, though it confirmed an earlier one: \(what). A newer client may have changed its data.",
                name)
        case .rolledBack(let name, _, let failure):
            self.init(failure, event: "rolledBack", version: name.shortDescription)
        }
    }

    private init(_ level: Level, _ event: String, _ message: String, _ name: ClientName) {
        self.init(level: level, event: event, message: message, version: name.shortDescription)
    }
}
