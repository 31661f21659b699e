package import BundleSigning

/// Takes typed members out of a JSON object; every refusal names the member.
package struct MemberReader {
    /// A member that is missing or not what it should be.
    package struct Refusal: Error, Equatable, CustomStringConvertible {
        /// The member's path: `ledger.versions[2].version`.
        package let member: String
        /// What is wrong with it.
        package let problem: String

        /// States a refusal.
        package init(member: String, problem: String) {
            self.member = member
            self.problem = problem
        }

        /// `member problem`.
        package var description: String { "\(member) \(problem)" }
    }

    /// The object.
    package let object: JSONObject
    private let path: String

    /// Reads from `value`, which must be an object; `path` names it in refusals.
    package init(_ value: JSONValue, of path: String) throws(Refusal) {
        guard let object = value.objectValue else { throw Refusal(member: path, problem: "is not a JSON object") }
        self.object = object
        self.path = path
    }

    /// A refusal of `member`.
    package func refusal(_ member: String, _ problem: String) -> Refusal {
        Refusal(member: "\(path).\(member)", problem: problem)
    }

    /// The value, or nil where the member is absent or null.
    package func optional(_ member: String) -> JSONValue? {
        guard let value = object[member], value != .null else { return nil }
        return value
    }

    /// Reads the object in `member`; nil where it is absent or null.
    package func optionalObject(_ member: String) throws(Refusal) -> MemberReader? {
        guard let value = optional(member) else { return nil }
        return try MemberReader(value, of: "\(path).\(member)")
    }

    private func required(_ member: String) throws(Refusal) -> JSONValue {
        guard let value = optional(member) else { throw refusal(member, "is missing") }
        return value
    }

    /// A string.
    package func string(_ member: String) throws(Refusal) -> String {
        guard let text = try required(member).stringValue else { throw refusal(member, "is not a string") }
        return text
    }

    /// A string, or nil where absent or null.
    package func optionalString(_ member: String) throws(Refusal) -> String? {
        optional(member) == nil ? nil : try string(member)
    }

    /// An integer of 0 or more.
    package func integer(_ member: String) throws(Refusal) -> Int {
        guard let number = try required(member).integerValue, number >= 0 else {
            throw refusal(member, "is not an integer of 0 or more")
        }
        return number
    }

    /// An integer of 0 or more, or nil where absent or null.
    package func optionalInteger(_ member: String) throws(Refusal) -> Int? {
        optional(member) == nil ? nil : try integer(member)
    }

    /// A semantic version.
    package func version(_ member: String) throws(Refusal) -> SemanticVersion {
        let text = try string(member)
        do { return try SemanticVersion(parsing: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// A semantic version, or nil where absent or null.
    package func optionalVersion(_ member: String) throws(Refusal) -> SemanticVersion? {
        optional(member) == nil ? nil : try version(member)
    }

    /// A SHA-256 in hex.
    package func digest(_ member: String) throws(Refusal) -> SHA256Digest {
        let text = try string(member)
        do { return try SHA256Digest(parsingHex: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// A SHA-256 in hex, or nil where absent or null.
    package func optionalDigest(_ member: String) throws(Refusal) -> SHA256Digest? {
        optional(member) == nil ? nil : try digest(member)
    }

    /// An RFC 3339 time.
    package func timestamp(_ member: String) throws(Refusal) -> Timestamp {
        let text = try string(member)
        do { return try Timestamp(parsing: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// A list of strings; empty where absent or null.
    package func strings(_ member: String) throws(Refusal) -> [String] {
        guard let value = optional(member) else { return [] }
        guard let values = value.arrayValue else { throw refusal(member, "is not a list") }
        var texts: [String] = []
        for value in values {
            guard let text = value.stringValue else { throw refusal(member, "holds something that is not a string") }
            texts.append(text)
        }
        return texts
    }

    /// A list of objects.
    package func objects(_ member: String) throws(Refusal) -> [MemberReader] {
        guard let values = try required(member).arrayValue else { throw refusal(member, "is not a list") }
        var readers: [MemberReader] = []
        for (index, value) in values.enumerated() {
            readers.append(try MemberReader(value, of: "\(path).\(member)[\(index)]"))
        }
        return readers
    }
}

extension JSONValue {
    /// A string, or null for nil.
    package static func string(orNull text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }
}
