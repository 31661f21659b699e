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
