import BundleValues

/// Parses a text frame: one JSON object whose unknown members are skipped.
struct DDPFrame {
    /// The largest frame in bytes.
    static let maximumBytes = 1 << 20
    private static let longestText = 8192
    private static let deepest = 64
    private static let mostNames = 64

    private var reader: JSONReader
    private var seen: Set<String> = []
    private var texts: [String: String] = [:]
    private var subscriptions: [String] = []
    private var cleared: [String] = []
    private var version = DocumentChange.Version.unmentioned
    private var reason: String?

    /// Throws if the frame is not a JSON object, has more than 1 MiB, is nested deeper than 64, or repeats a known
    /// member.
    static func message(in text: String) throws(JSONError) -> DDPMessage {
        // Checks the length before it copies the text.
        guard text.utf8.count <= maximumBytes else { throw .tooLong(bytes: text.utf8.count, limit: maximumBytes) }
        var frame = DDPFrame(
            reader: try JSONReader(Array(text.utf8), maximumBytes: maximumBytes, maximumDepth: deepest))
        try frame.read()
        return frame.message
    }

    private init(reader: JSONReader) { self.reader = reader }

    // MARK: Members

    private mutating func read() throws(JSONError) {
        try reader.enterObject()
        while let name = try reader.nextMember(maximumBytes: Self.longestText) {
            switch name {
            case "msg", "id", "version", "reason", "collection":
                try refuseSecond(name)
                texts[name] = try reader.readText(maximumBytes: Self.longestText)
            case "subs":
                try refuseSecond(name)
                subscriptions = try readTexts()
            case "cleared":
                try refuseSecond(name)
                cleared = try readTexts()
            case "fields":
                try refuseSecond(name)
                try readFields()
            case "error":
                try refuseSecond(name)
                try readError()
            default: _ = try reader.skipValue()
            }
        }
        try reader.finish()
    }

    private mutating func refuseSecond(_ name: String) throws(JSONError) {
        guard seen.insert(name).inserted else { throw .duplicateMember(name: name, offset: reader.position) }
    }

    private mutating func readFields() throws(JSONError) {
        guard try reader.enterObjectOrSkip() else { return }
        while let name = try reader.nextMember(maximumBytes: Self.longestText) {
            if name == "version" {
                try refuseSecond("fields.version")
                version =
                    try reader.readText(maximumBytes: Self.longestText).map(DocumentChange.Version.stated) ?? .none
            } else {
                _ = try reader.skipValue()
            }
        }
    }

    private mutating func readError() throws(JSONError) {
        guard try reader.enterObjectOrSkip() else { return }
        while let name = try reader.nextMember(maximumBytes: Self.longestText) {
            if name == "reason" || name == "message" {
                let text = try reader.readText(maximumBytes: Self.longestText)
                reason = name == "reason" ? text ?? reason : reason ?? text
            } else {
                _ = try reader.skipValue()
            }
        }
    }

    // MARK: Values

    private mutating func readTexts() throws(JSONError) -> [String] {
        guard try reader.kind() == .array else {
            _ = try reader.skipValue()
            return []
        }
        var texts: [String] = []
        try reader.enterArray()
        while try reader.nextElement() {
            let text = try reader.readText(maximumBytes: Self.longestText)
            if let text, texts.count < Self.mostNames { texts.append(text) }
        }
        return texts
    }

    // MARK: The message

    private var message: DDPMessage {
        let collection = texts["collection"]
        let id = texts["id"]
        switch texts["msg"] {
        case "connected": return .connected
        case "failed": return .failed(version: texts["version"] ?? "")
        case "ready": return .ready(subscriptions: subscriptions)
        case "nosub": return id.map { .noSubscription(id: $0, reason: reason) } ?? .other
        case "ping": return .ping(id: id)
        case "error": return .error(reason: texts["reason"])
        case "added": return change.map(DDPMessage.added) ?? .other
        case "changed": return change.map(DDPMessage.changed) ?? .other
        case "removed":
            guard let collection, let id else { return .other }
            return .removed(collection: collection, id: id)
        default: return .other
        }
    }

    private var change: DocumentChange? {
        guard let collection = texts["collection"], let id = texts["id"] else { return nil }
        let isCleared = version == .unmentioned && cleared.contains("version")
        return DocumentChange(collection: collection, id: id, version: isCleared ? .none : version)
    }
}
