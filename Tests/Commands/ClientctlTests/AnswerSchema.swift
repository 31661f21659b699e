import BundleTesting
import BundleValues
import Synchronization
import Testing

/// A JSON Schema of `Guide/reference/json`.
/// | The schemas allow unknown members, because readers ignore them. A test rejects unknown members, so that each
/// member is documented. Supports `$ref` to another file, `type`, `enum`, `anyOf`, `required`, `properties`,
/// `additionalProperties` and `items`.
struct AnswerSchema {
    private let rules: JSONObject

    /// Reads the schema for the output of `command`, such as `channel-list`. Returns nil if the file does not exist.
    init?(_ command: String) {
        guard let rules = Self.rules(of: "\(command).schema.json") else { return nil }
        self.rules = rules
    }

    /// Returns the first difference between `value` and the schema, or nil if it conforms. With `isPart`, `value` may
    /// lack members at its top level.
    func mismatch(_ value: JSONObject, isPart: Bool = false) -> String? {
        Self.mismatch(.object(value), rules, "$", isPart: isPart)
    }

    private static let read = Mutex<[String: JSONObject?]>([:])

    private static func rules(of file: String) -> JSONObject? {
        read.withLock { known in
            if let rules = known[file] { return rules }
            let bytes = try? contents(ofFile: "\(Checkout.root)/Guide/reference/json/\(file)")
            let rules = bytes.flatMap { try? JSONScanner.parse($0, maximumBytes: 1 << 20) }?.objectValue
            known[file] = .some(rules)
            return rules
        }
    }

    private static func mismatch(
        _ value: JSONValue, _ rules: JSONObject, _ path: String, isPart: Bool = false
    ) -> String? {
        if let file = rules["$ref"]?.stringValue {
            guard let rules = Self.rules(of: file) else { return "\(path): there is no schema \(file)" }
            return mismatch(value, rules, path, isPart: isPart)
        }
        if let choices = rules["anyOf"]?.arrayValue?.compactMap(\.objectValue) {
            let problems = choices.map { mismatch(value, $0, path, isPart: isPart) }
            if !problems.contains(nil) { return problems.compactMap(\.self).joined(separator: ", or ") }
        }
        let types = rules["type"]?.arrayValue?.compactMap(\.stringValue) ?? rules["type"]?.stringValue.map { [$0] }
        if let types, !types.contains(type(of: value)) { return "\(path) is \(type(of: value)), not \(types)" }
        if let words = rules["enum"]?.arrayValue, !words.contains(value) {
            return "\(path) is \(value), not one of \(words)"
        }
        switch value {
        case .array(let values):
            guard let rules = rules["items"]?.objectValue else { return nil }
            return values.lazy.compactMap { mismatch($0, rules, "\(path)[]") }.first
        case .object(let object): return mismatch(object, rules, path, isPart: isPart)
        default: return nil
        }
    }

    private static func mismatch(
        _ object: JSONObject, _ rules: JSONObject, _ path: String, isPart: Bool
    ) -> String? {
        let others = rules["additionalProperties"]
        guard rules["properties"] != nil || others?.objectValue != nil else { return nil }
        let properties = rules["properties"]?.objectValue ?? [:]
        let required = rules["required"]?.arrayValue?.compactMap(\.stringValue) ?? []
        if !isPart, let missing = required.first(where: { object[$0] == nil }) { return "\(path) lacks \(missing)" }
        for member in object.members {
            let place = "\(path).\(member.name)"
            if let rules = (properties[member.name] ?? others)?.objectValue {
                if let problem = mismatch(member.value, rules, place) { return problem }
            } else if properties[member.name] == nil, others != .bool(true) {
                return "\(place) is not in the schema"
            }
        }
        return nil
    }

    private static func type(of value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool: "boolean"
        case .integer: "integer"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }
}

extension AnswerSchema {
    private static let groups = ["keys", "trust", "release", "channel", "feed", "fleet", "session", "screen"]

    /// Returns the name of the schema for the output of `arguments`.
    static func name(of arguments: [String]) -> String {
        let words = arguments.prefix { !$0.hasPrefix("-") }
        guard let first = words.first else { return "" }
        if groups.contains(first) { return words.prefix(2).joined(separator: "-") }
        return first == "verify" && arguments.contains("--store") ? "verify-store" : first
    }

    /// Expects the output of `arguments` to conform to its schema, and an error in it to conform to the schema of
    /// errors.
    static func expect(_ answer: JSONObject, to arguments: [String]) {
        let name = name(of: arguments)
        var rest = answer
        if answer["error"] != nil {
            rest["error"] = nil
            report(AnswerSchema("error")?.mismatch(["error": answer["error"] ?? .null]), of: "error", arguments)
        }
        if rest.members.isEmpty { return }
        guard let schema = AnswerSchema(name) else { return report("there is none", of: name, arguments) }
        report(schema.mismatch(rest, isPart: answer["error"] != nil), of: name, arguments)
    }

    private static func report(_ problem: String?, of name: String, _ arguments: [String]) {
        guard let problem else { return }
        Issue.record("clientctl \(arguments.joined(separator: " ")): \(problem) (\(name).schema.json)")
    }
}
