package import BundleSigning

/// Reads typed members of a JSON object. Every error names the member.
package struct MemberReader {
    /// A member that is missing or invalid.
    package struct Refusal: Error, Equatable, CustomStringConvertible {
        /// The path of the member, such as `ledger.versions[2].version`.
        package let member: String
        /// The problem as the end of a sentence that starts with the member.
        package let problem: String

        package init(member: String, problem: String) {
            self.member = member
            self.problem = problem
        }

        package var description: String { "\(member) \(problem)" }
    }

    package let object: JSONObject
    private let path: String

    /// Throws if `value` is not an object. `path` is the prefix of the members in errors.
    package init(_ value: JSONValue, of path: String) throws(Refusal) {
        guard let object = value.objectValue else { throw Refusal(member: path, problem: "is not a JSON object") }
        self.object = object
        self.path = path
    }

    /// Creates an error about `member`.
    package func refusal(_ member: String, _ problem: String) -> Refusal {
        Refusal(member: "\(path).\(member)", problem: problem)
    }

    /// Throws if the object has a member that is not in `names`. `noun` names the object in the error.
    package func requireOnly(_ names: some Collection<String>, of noun: String) throws(Refusal) {
        guard let unknown = object.members.first(where: { !names.contains($0.name) }) else { return }
        throw refusal(UntrustedName.display(unknown.name), "is not a member of a \(noun)")
    }

    /// Returns the value, or nil if the member is absent or null.
    package func optional(_ member: String) -> JSONValue? {
        guard let value = object[member], value != .null else { return nil }
        return value
    }

    /// Returns a reader of the object in `member`, or nil if the member is absent or null.
    package func optionalObject(_ member: String) throws(Refusal) -> MemberReader? {
        guard let value = optional(member) else { return nil }
        return try MemberReader(value, of: "\(path).\(member)")
    }

    private func required(_ member: String) throws(Refusal) -> JSONValue {
        guard let value = optional(member) else { throw refusal(member, "is missing") }
        return value
    }

    package func string(_ member: String) throws(Refusal) -> String {
        guard let text = try required(member).stringValue else { throw refusal(member, "is not a string") }
        return text
    }

    /// Returns nil if the member is absent or null.
    package func optionalString(_ member: String) throws(Refusal) -> String? {
        optional(member) == nil ? nil : try string(member)
    }

    /// Returns an integer of 0 or more.
    package func integer(_ member: String) throws(Refusal) -> Int {
        guard let number = try required(member).integerValue, number >= 0 else {
            throw refusal(member, "is not an integer of 0 or more")
        }
        return number
    }

    /// Returns an integer of 0 or more, or nil if the member is absent or null.
    package func optionalInteger(_ member: String) throws(Refusal) -> Int? {
        optional(member) == nil ? nil : try integer(member)
    }

    package func version(_ member: String) throws(Refusal) -> SemanticVersion {
        let text = try string(member)
        do { return try SemanticVersion(parsing: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// Returns nil if the member is absent or null.
    package func optionalVersion(_ member: String) throws(Refusal) -> SemanticVersion? {
        optional(member) == nil ? nil : try version(member)
    }

    /// Returns a SHA-256 digest, written in hexadecimal.
    package func digest(_ member: String) throws(Refusal) -> SHA256Digest {
        let text = try string(member)
        do { return try SHA256Digest(parsingHex: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// Returns nil if the member is absent or null.
    package func optionalDigest(_ member: String) throws(Refusal) -> SHA256Digest? {
        optional(member) == nil ? nil : try digest(member)
    }

    /// Returns a time in the form of RFC 3339.
    package func timestamp(_ member: String) throws(Refusal) -> Timestamp {
        let text = try string(member)
        do { return try Timestamp(parsing: text) } catch { throw refusal(member, "is refused: \(error)") }
    }

    /// Returns a value of an enum, written as its raw value.
    package func value<Value: RawRepresentable<String>>(_ member: String) throws(Refusal) -> Value {
        guard let value = Value(rawValue: try string(member)) else { throw refusal(member, "is not a known value") }
        return value
    }

    /// Returns nil if the member is absent or null.
    package func optionalValue<Value: RawRepresentable<String>>(_ member: String) throws(Refusal) -> Value? {
        optional(member) == nil ? nil : try value(member)
    }

    /// Returns a list of strings. The list is empty if the member is absent or null.
    package func strings(_ member: String) throws(Refusal) -> [String] {
        guard let value = optional(member) else { return [] }
        guard let values = value.arrayValue else { throw refusal(member, "is not a list") }
        var texts: [String] = []
        for value in values {
            guard let text = value.stringValue else { throw refusal(member, "contains a value that is not a string") }
            texts.append(text)
        }
        return texts
    }

    /// Returns a reader for each object of a list.
    package func objects(_ member: String) throws(Refusal) -> [MemberReader] {
        guard let values = try required(member).arrayValue else { throw refusal(member, "is not a list") }
        var readers: [MemberReader] = []
        for (index, value) in values.enumerated() {
            readers.append(try MemberReader(value, of: "\(path).\(member)[\(index)]"))
        }
        return readers
    }
}
