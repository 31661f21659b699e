import BundleValues
import Testing

@Suite("JSONObject") struct JSONObjectTests {
    @Test(arguments: [0, 1, 15, 16, 17, 18, 30])
    func `sets, replaces and removes members of objects of any size`(others: Int) {
        var object = JSONObject()
        object["first"] = .integer(0)
        for number in 0..<others { object["m\(number)"] = .integer(number) }
        object["last"] = .integer(2)
        object["first"] = .integer(1)
        #expect(object.members.first?.value == .integer(1))
        #expect(object.members.count == others + 2)
        object["first"] = nil
        object["absent"] = nil
        #expect(object["first"] == nil)
        #expect(object["last"] == .integer(2))
        #expect(object.members.map(\.name) == (0..<others).map { "m\($0)" } + ["last"])
        for number in 0..<others { #expect(object["m\(number)"] == .integer(number)) }
        object["last"] = nil
        #expect(object["last"] == nil)
    }

    @Test func `compares the order, names and values of members`() {
        let object: JSONObject = ["a": .integer(1), "b": .integer(2)]
        #expect(object == ["a": .integer(1), "b": .integer(2)])
        #expect(object != ["b": .integer(2), "a": .integer(1)])
        #expect(object != ["a": .integer(1), "b": .integer(3)])
        #expect(object != ["a": .integer(1), "c": .integer(2)])
        #expect(object != ["a": .integer(1)])
        #expect(JSONObject(dictionaryLiteral: ("\u{E9}", .null)) != ["e\u{301}": .null])
    }

    @Test func `keeps the first position and last value of a repeated name in a literal`() {
        #expect(
            JSONObject(dictionaryLiteral: ("a", .null), ("b", .null), ("a", .bool(true))) == [
                "a": .bool(true), "b": .null,
            ])
    }

    @Test func `compares strings by their bytes`() {
        #expect(JSONValue.string("\u{E9}") != .string("e\u{301}"))
        #expect(JSONValue.string("\u{E9}") == .string("\u{E9}"))
        #expect(JSONValue.array([.string("\u{E9}")]) != .array([.string("e\u{301}")]))
    }

    @Test func `returns nil from the accessors of other kinds`() {
        let values: [JSONValue] = [.null, .bool(true), .integer(1), .string("1"), .array([]), .object([:])]
        #expect(values.map(\.boolValue) == [nil, true, nil, nil, nil, nil])
        #expect(values.map(\.integerValue) == [nil, nil, 1, nil, nil, nil])
        #expect(values.map(\.stringValue) == [nil, nil, nil, "1", nil, nil])
        #expect(values.map(\.arrayValue) == [nil, nil, nil, nil, [], nil])
        #expect(values.map(\.objectValue) == [nil, nil, nil, nil, nil, [:]])
        for (row, left) in values.enumerated() {
            for (column, right) in values.enumerated() { #expect((left == right) == (row == column)) }
        }
        #expect(JSONValue.bool(true) != .bool(false))
        #expect(JSONValue.integer(1) != .integer(2))
    }
}
