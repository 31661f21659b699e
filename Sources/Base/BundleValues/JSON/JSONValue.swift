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
    package static func string(orNull text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }

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
    package struct JSONMember: Sendable, Equatable {
        package let name: String
        package let value: JSONValue

        package static func == (left: JSONMember, right: JSONMember) -> Bool {
            JSONName.areSame(left.name, right.name) && left.value == right.value
        }
    }

    package private(set) var members: [JSONMember] = []

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
            case (let index?, let value?): members[index] = JSONMember(name: name, value: value)
            case (let index?, nil): remove(at: index)
            case (nil, let value?): append(value, named: name)
            case (nil, nil): break
            }
        }
    }

    /// Appends a member. Returns false if the object has a member of that name.
    mutating func insert(_ value: JSONValue, named name: String) -> Bool {
        guard position(of: name) == nil else { return false }
        append(value, named: name)
        return true
    }

    private mutating func append(_ value: JSONValue, named name: String) {
        members.append(JSONMember(name: name, value: value))
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
