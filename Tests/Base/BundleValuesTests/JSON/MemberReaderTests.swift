import BundleValues
import Testing

struct MemberReaderTests {
    @Test(arguments: ["[]", "null", "7", "\"x\"", "[{}]"]) func `a document that is no object is refused`(text: String)
        throws
    {
        let value = try JSONScanner.parse(Array(text.utf8), maximumBytes: 100)
        let refusal = #expect(throws: MemberReader.Refusal.self) { try MemberReader(value, of: "ledger") }
        #expect(refusal?.description == "ledger is not a JSON object")
    }

    @Test(arguments: [
        ("[\"a\",1]", "ledger.x holds something that is not a string"), ("\"a\"", "ledger.x is not a list"),
        ("{}", "ledger.x is not a list"),
    ])
    func `a list of texts that is none is refused`(list: String, problem: String) throws {
        let value = try JSONScanner.parse(Array("{\"x\":\(list)}".utf8), maximumBytes: 100)
        let reader = try MemberReader(value, of: "ledger")
        let refusal = #expect(throws: MemberReader.Refusal.self) { try reader.strings("x") }
        #expect(refusal?.description == problem)
        #expect(try reader.strings("y") == [])
    }
}
