import BundleValues

/// A console message of a page or the browser.
package struct ConsoleMessage: Sendable, Equatable {
    package enum Origin: String, Sendable {
        /// A call of `console`.
        case console
        /// An uncaught exception or rejection.
        case exception
        /// A message of the browser about a failed load, the content security policy or a deprecation.
        case browser
    }

    package let origin: Origin
    /// The level, such as `log`, `info`, `warning`, `error` or `debug`.
    package let level: String
    /// The text. The arguments of a call are joined.
    package let text: String
    /// The URL of the script or of the failed load; empty if there is none.
    package let url: String
}

/// A request of a page. Each redirect is a separate request.
package struct PageRequest: Sendable, Equatable {
    package let url: String
    package let method: String
    /// The status; nil without a response.
    package internal(set) var status: Int?
    /// Whether the response came from the cache without a request.
    package internal(set) var isFromCache = false
    /// The error if there is no response or an incomplete one.
    package internal(set) var failure: String?

    let number: String
}

/// The record of the events of one session.
struct PageRecord: Sendable {
    struct Document: Sendable, Equatable {
        let frame: String
        let loader: String
    }

    var console: [ConsoleMessage] = []
    var requests: [PageRequest] = []
    /// The text messages that its WebSockets sent.
    var sentMessages: [String] = []
    /// The documents whose load event fired, in order. A frame has its own documents.
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
        case "Network.webSocketFrameSent": sentMessages.append(event.object("response").text("payloadData"))
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

    /// Returns the displayed text of a remote object.
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
