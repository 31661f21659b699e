import BundleValues

/// Something that a page or the browser said about it.
package struct ConsoleMessage: Sendable, Equatable {
    /// Where it comes from.
    package enum Origin: String, Sendable {
        /// A call of `console`.
        case console
        /// An exception or a rejection that nobody caught.
        case exception
        /// The browser's own word: failed loads, content security policy, deprecations.
        case browser
    }

    /// Where it comes from.
    package let origin: Origin
    /// `log`, `info`, `warning`, `error`, `debug` and what else the browser has.
    package let level: String
    /// The text; the parts of a call in one line.
    package let text: String
    /// The URL of the script, or of what was not loaded; empty where there is none.
    package let url: String
}

/// One request of a page, redirects one by one.
package struct PageRequest: Sendable, Equatable {
    /// The URL.
    package let url: String
    /// The method.
    package let method: String
    /// The status; nil without an answer.
    package internal(set) var status: Int?
    /// Answered without asking the server.
    package internal(set) var isFromCache = false
    /// Why there is no answer, or not all of it; nil where all is well.
    package internal(set) var failure: String?

    let number: String
}

/// What the events of one session say.
struct PageRecord: Sendable {
    struct Document: Sendable, Equatable {
        let frame: String
        let loader: String
    }

    var console: [ConsoleMessage] = []
    var requests: [PageRequest] = []
    /// The documents whose load event fired, in order; a frame within the page has documents of its own.
    var loaded: [Document] = []
    var hasCrashed = false

    mutating func take(_ method: String, _ event: JSONObject) {
        switch method {
        case "Runtime.consoleAPICalled": takeConsole(event)
        case "Runtime.exceptionThrown": takeException(event.object("exceptionDetails"))
        case "Log.entryAdded":
            let entry = event.object("entry")
            console.append(
                ConsoleMessage(
                    origin: .browser, level: entry.text("level"), text: entry.text("text"), url: entry.text("url")))
        case "Network.requestWillBeSent": takeRequest(event)
        case "Network.responseReceived":
            change(event.text("requestId")) { $0.answer(event.object("response")) }
        case "Network.requestServedFromCache":
            change(event.text("requestId")) { $0.isFromCache = true }
        case "Network.loadingFailed":
            let reason = event.text("errorText").isEmpty ? event.text("blockedReason") : event.text("errorText")
            change(event.text("requestId")) { $0.failure = reason }
        case "Page.lifecycleEvent":
            let document = Document(frame: event.text("frameId"), loader: event.text("loaderId"))
            if event.text("name") == "load", !loaded.contains(document) { loaded.append(document) }
        case "Inspector.targetCrashed": hasCrashed = true
        default: break
        }
    }

    private mutating func takeConsole(_ event: JSONObject) {
        let parts = event["args"]?.arrayValue?.compactMap(\.objectValue).map(Self.text) ?? []
        console.append(
            ConsoleMessage(
                origin: .console, level: event.text("type"), text: parts.joined(separator: " "),
                url: Self.source(event)))
    }

    private mutating func takeException(_ details: JSONObject) {
        let thrown = details.object("exception")
        console.append(
            ConsoleMessage(
                origin: .exception, level: "error", text: "\(details.text("text")) \(Self.text(thrown))",
                url: details.text("url").isEmpty ? Self.source(details) : details.text("url")))
    }

    private static func source(_ event: JSONObject) -> String {
        event.object("stackTrace")["callFrames"]?.arrayValue?.first?.objectValue?.text("url") ?? ""
    }

    /// What a remote object shows of itself.
    static func text(_ remote: JSONObject) -> String {
        switch remote["value"] {
        case .string(let text): text
        case .integer(let number): String(number)
        case .bool(let flag): String(flag)
        case .null: "null"
        case .array, .object, nil:
            remote["description"]?.stringValue ?? remote["unserializableValue"]?.stringValue ?? remote.text("type")
        }
    }

    private mutating func takeRequest(_ event: JSONObject) {
        let request = event.object("request")
        if let redirect = event["redirectResponse"]?.objectValue {
            change(event.text("requestId")) { $0.answer(redirect) }
        }
        requests.append(
            PageRequest(url: request.text("url"), method: request.text("method"), number: event.text("requestId")))
    }

    private mutating func change(_ number: String, _ change: (inout PageRequest) -> Void) {
        guard let index = requests.lastIndex(where: { $0.number == number }) else { return }
        change(&requests[index])
    }
}

extension PageRequest {
    fileprivate mutating func answer(_ response: JSONObject) {
        status = response["status"]?.integerValue
        if response["fromDiskCache"]?.boolValue == true { isFromCache = true }
    }
}
