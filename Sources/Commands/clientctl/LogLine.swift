import BundleCore
import BundleValues
import ClientShell

/// One line of the log, before it has a form. Nothing secret is ever in it.
struct LogLine: Sendable {
    /// How much it matters, with the numbers of sd-daemon(3).
    enum Level: Int, Sendable {
        case error = 3
        case warning = 4
        case info = 6

        var word: String {
            switch self {
            case .error: "error"
            case .warning: "warning"
            case .info: "info"
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

    /// The line with its end; each line of a longer message is one of its own, but in JSON.
    func text(_ form: Form, at time: Timestamp) -> String {
        switch form {
        case .text: "\(Self.lead)\(message)\n"
        case .journal: Self.prioritised("\(Self.lead)\(message)", level)
        case .json: json(at: time)
        }
    }

    /// What stands in front of sentences.
    static let lead = "clientctl: "

    static func prioritised(_ text: String, _ level: Level) -> String {
        text.split(whereSeparator: \.isNewline).map { "<\(level.rawValue)>\($0)\n" }.joined()
    }

    private func json(at time: Timestamp) -> String {
        var object: JSONObject = [
            "time": .string(time.description), "level": .string(level.word), "event": .string(event),
            "message": .string(message),
        ]
        if let version { object["version"] = .string(version) }
        if let code { object["code"] = .string(code) }
        return String(decoding: JSONWriter.bytes(of: .object(object)), as: UTF8.self) + "\n"
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
        case .rolledBack(let name, _, let failure):
            self.init(failure, event: "rolledBack", version: name.shortDescription)
        }
    }

    private init(_ level: Level, _ event: String, _ message: String, _ name: ClientName) {
        self.init(level: level, event: event, message: message, version: name.shortDescription)
    }
}
