import ArgumentParser
import BundleValues
import Glibc
import Synchronization

/// The log of this process, on standard error. What keeps it, and for how long, is for whoever reads it: the journal, or a file's
/// owner.
enum Log {
    private static let form = Mutex(LogLine.Form.text)

    /// Chooses the form of every line from now on.
    static func use(_ chosen: LogLine.Form) { form.withLock { $0 = chosen } }

    /// Writes a line.
    static func note(_ line: LogLine) { Output.line(line.text(form.withLock(\.self), at: .now)) }

    /// Writes what somebody says who does not know of logs: a warning, at most.
    static func say(_ text: String) {
        switch form.withLock(\.self) {
        case .text: Output.line("\(text)\n")
        case .journal: Output.line(LogLine.prioritised(text, .warning))
        case .json:
            let lead = LogLine.lead
            let message = text.hasPrefix(lead) ? String(text.dropFirst(lead.count)) : text
            note(LogLine(level: .warning, event: "message", message: message))
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
