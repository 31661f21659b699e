package import BundleSigning

/// A JSON value by RFC 8259, with integers as the only numbers.
package enum JSONValue: Sendable {
    case null
    case bool(Bool)
    /// An integer within ±(2^53-1). `JSONScanner` returns only such integers, and `JSONWriter` expects them.
    case integer(Int)
    /// An unescaped string. It can contain control characters.
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// The largest magnitude of an integer that every JSON implementation stores exactly (RFC 8259, section 6).
    package static let maximumInteger = 9_007_199_254_740_991
}

extension JSONValue {
    package var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
    package var integerValue: Int? { if case .integer(let value) = self { value } else { nil } }
    package var stringValue: String? { if case .string(let value) = self { value } else { nil } }
    package var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }
    package var objectValue: JSONObject? { if case .object(let value) = self { value } else { nil } }
}

extension JSONValue: Equatable {
    /// Compares strings by their UTF-8 bytes, and objects including the order of their members.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.string(let left), .string(let right)): JSONName.areSame(left, right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }
}

/// An ordered JSON object with unique member names. Names are compared by their UTF-8 bytes.
package struct JSONObject: Sendable {
    package struct Member: Sendable, Equatable {
        package let name: String
        package let value: JSONValue

        package static func == (left: Member, right: Member) -> Bool {
            JSONName.areSame(left.name, right.name) && left.value == right.value
        }
    }

    package private(set) var members: [Member] = []

    /// The index of each name. It is empty unless the object is too large for a linear search.
    private var positions: [JSONName: Int] = [:]
    private static let linearSearchLimit = 16

    package init() {}

    /// The value of the member `name`. Setting a value replaces it in place or appends it; setting nil removes the
    /// member.
    package subscript(name: String) -> JSONValue? {
        get { position(of: name).map { members[$0].value } }
        set {
            switch (position(of: name), newValue) {
            case (let index?, let value?): members[index] = Member(name: name, value: value)
            case (let index?, nil): remove(at: index)
            case (nil, let value?): append(name, value)
            case (nil, nil): break
            }
        }
    }

    /// Appends a member. Returns false if the object has a member of that name.
    mutating func insert(_ name: String, _ value: JSONValue) -> Bool {
        guard position(of: name) == nil else { return false }
        append(name, value)
        return true
    }

    private mutating func append(_ name: String, _ value: JSONValue) {
        members.append(Member(name: name, value: value))
        if members.count > Self.linearSearchLimit + 1 {
            positions[JSONName(text: name)] = members.count - 1
        } else if members.count == Self.linearSearchLimit + 1 {
            indexAll()
        }
    }

    private mutating func remove(at index: Int) {
        members.remove(at: index)
        positions = [:]
        if members.count > Self.linearSearchLimit { indexAll() }
    }

    private mutating func indexAll() {
        for (index, member) in members.enumerated() { positions[JSONName(text: member.name)] = index }
    }

    private func position(of name: String) -> Int? {
        if members.count > Self.linearSearchLimit { return positions[JSONName(text: name)] }
        return members.firstIndex { JSONName.areSame($0.name, name) }
    }
}

extension JSONObject: Equatable, ExpressibleByDictionaryLiteral {
    /// Compares the members in their order.
    package static func == (left: JSONObject, right: JSONObject) -> Bool { left.members == right.members }

    /// Creates an object from a literal. A repeated name keeps its first position and its last value.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements { self[name] = value }
    }
}

/// A member name that is compared by its UTF-8 bytes, for use as a dictionary key.
struct JSONName: Hashable, Sendable {
    let text: String

    /// Compares bytes, because `String` compares normal forms, which is also much slower.
    static func areSame(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count && left.utf8.elementsEqual(right.utf8)
    }

    static func == (left: JSONName, right: JSONName) -> Bool { areSame(left.text, right.text) }

    /// Hashes bytes, because `String` hashes the normal form: an attacker could send many names with one normal form,
    /// which would all collide.
    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

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

extension JSONValue {
    package static func string(orNull text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }
}
