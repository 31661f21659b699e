package import BundleSigning

/// A JSON value as this product reads and writes it: RFC 8259, with whole numbers only.
package enum JSONValue: Sendable {
    /// The literal `null`.
    case null
    /// The literal `true` or `false`.
    case bool(Bool)
    /// A whole number; the scanner yields, and the writer expects, -(2^53-1)...2^53-1.
    case integer(Int)
    /// Text, unescaped; may hold control characters that were escaped in the source.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object with its members in order.
    case object(JSONObject)

    /// The greatest magnitude of a number, 2^53-1: what every JSON implementation keeps exactly (RFC 8259, section 6).
    package static let maximumInteger = 9_007_199_254_740_991
}

extension JSONValue {
    /// The truth value, or nil for any other kind.
    package var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The number, or nil for any other kind.
    package var integerValue: Int? { if case .integer(let value) = self { value } else { nil } }
    /// The text, or nil for any other kind.
    package var stringValue: String? { if case .string(let value) = self { value } else { nil } }
    /// The elements, or nil for any other kind.
    package var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }
    /// The object, or nil for any other kind.
    package var objectValue: JSONObject? { if case .object(let value) = self { value } else { nil } }
}

extension JSONValue: Equatable {
    /// Equal kind and content; text is compared by its UTF-8 bytes, objects with the order of their members.
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

/// The members of a JSON object in their order, each name once; names are told apart by their UTF-8 bytes.
package struct JSONObject: Sendable {
    /// One name with its value.
    package struct Member: Sendable, Equatable {
        /// The name, unescaped.
        package let name: String
        /// The value under that name.
        package let value: JSONValue

        /// Equal when the bytes of the names and the values are.
        package static func == (left: Member, right: Member) -> Bool {
            JSONName.areSame(left.name, right.name) && left.value == right.value
        }
    }

    /// The members in order.
    package private(set) var members: [Member] = []

    /// Where each name stands; kept only for objects too large to search one by one.
    private var positions: [JSONName: Int] = [:]
    private static let searchedOneByOne = 16

    /// Makes an object without members.
    package init() {}

    /// The value under `name`. Setting replaces in place or appends; setting nil removes.
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

    /// Appends a member unless the name is taken; tells whether it did.
    mutating func insert(_ name: String, _ value: JSONValue) -> Bool {
        guard position(of: name) == nil else { return false }
        append(name, value)
        return true
    }

    private mutating func append(_ name: String, _ value: JSONValue) {
        members.append(Member(name: name, value: value))
        if members.count > Self.searchedOneByOne + 1 {
            positions[JSONName(text: name)] = members.count - 1
        } else if members.count == Self.searchedOneByOne + 1 {
            indexAll()
        }
    }

    private mutating func remove(at index: Int) {
        members.remove(at: index)
        positions = [:]
        if members.count > Self.searchedOneByOne { indexAll() }
    }

    private mutating func indexAll() {
        for (index, member) in members.enumerated() { positions[JSONName(text: member.name)] = index }
    }

    private func position(of name: String) -> Int? {
        if members.count > Self.searchedOneByOne { return positions[JSONName(text: name)] }
        return members.firstIndex { JSONName.areSame($0.name, name) }
    }
}

extension JSONObject: Equatable, ExpressibleByDictionaryLiteral {
    /// Equal when the members are, in the same order.
    package static func == (left: JSONObject, right: JSONObject) -> Bool { left.members == right.members }

    /// Makes an object from a literal; a name written twice keeps its first place and its last value.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements { self[name] = value }
    }
}

/// A member name whose identity is its UTF-8 bytes, for use as a dictionary key.
struct JSONName: Hashable, Sendable {
    let text: String

    /// Byte-wise equality; Swift's own would normalise both sides, which also costs far more than comparing bytes.
    static func areSame(_ left: String, _ right: String) -> Bool {
        left.utf8.count == right.utf8.count && left.utf8.elementsEqual(right.utf8)
    }

    static func == (left: JSONName, right: JSONName) -> Bool { areSame(left.text, right.text) }

    /// Hashes bytes: `String` hashes the normal form, and masses of names that share one could be made to collide.
    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

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
