import BundleValues
import Testing

@Suite("MemberReader") struct MemberReaderTests {
    @Test(arguments: ["[]", "null", "7", "\"x\"", "[{}]"]) func `rejects a document that is not an object`(text: String)
        throws
    {
        let value = try JSONScanner.parse(Array(text.utf8), maximumBytes: 100)
        let refusal = #expect(throws: MemberReader.Refusal.self) { try MemberReader(value, of: "ledger") }
        #expect(refusal?.description == "ledger is not a JSON object")
    }

    @Test(arguments: [
        ("[\"a\",1]", "ledger.x contains a value that is not a string"), ("\"a\"", "ledger.x is not a list"),
        ("{}", "ledger.x is not a list"),
    ])
    func `rejects a list with values that are not strings`(list: String, problem: String) throws {
        let value = try JSONScanner.parse(Array("{\"x\":\(list)}".utf8), maximumBytes: 100)
        let reader = try MemberReader(value, of: "ledger")
        let refusal = #expect(throws: MemberReader.Refusal.self) { try reader.strings("x") }
        #expect(refusal?.description == problem)
        #expect(try reader.strings("y") == [])
    }
}
