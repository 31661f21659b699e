import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

/// The schemas of `Guide/reference/json`. Every test compares the output of commands with them.
@Suite(.ownThread) struct AnswerSchemaTests {
    @Test func `every command has a schema`() {
        // `kiosk` prints only its log.
        let answering = EveryFlagTests.commands.filter { $0.words != ["kiosk"] }
        let names = answering.map { $0.words.joined(separator: "-") } + ["verify-store", "error"]
        #expect(names.filter { AnswerSchema($0) == nil } == [])
    }

    @Test func `every schema belongs to a command and allows unknown members`() throws {
        let names = Set(EveryFlagTests.commands.map { $0.words.joined(separator: "-") } + ["verify-store", "error"])
        for (file, bytes) in try TreeSnapshot(of: "\(Checkout.root)/Guide/reference/json").files {
            #expect(names.contains(file.replacing(".schema.json", with: "")), "\(file)")
            #expect(!String(decoding: bytes, as: UTF8.self).contains("\"additionalProperties\": false"), "\(file)")
        }
    }

    @Test(arguments: [
        (["channel", "list", "--json"], "channel-list"), (["verify", "--store", "store", "--json"], "verify-store"),
        (["verify", "feed", "--json"], "verify"), (["install", "--json"], "install"),
    ])
    func `finds the schema by the words of the command`(arguments: [String], name: String) {
        #expect(AnswerSchema.name(of: arguments) == name)
    }

    @Test(
        arguments: [
            (["outcome": .string("locked")], "$ lacks session"),
            (["outcome": .string("maybe"), "session": .object([:])], "$.outcome is"),
            (["outcome": .string("locked"), "session": .null], "$.session is null"),
            (["outcome": .string("locked"), "more": .null, "session": .object([:])], "$.more is not in the schema"),
        ] as [(JSONObject, String)])
    func `names the member that differs from the schema`(answer: JSONObject, problem: String) throws {
        let schema = try #require(AnswerSchema("screen-lock"))
        let found = schema.mismatch(answer) ?? schema.mismatch(answer, isPart: true)
        #expect(found?.contains(problem) == true, "\(found ?? "nothing")")
    }

    @Test func `accepts missing members in part of an output`() throws {
        #expect(try #require(AnswerSchema("screen-lock")).mismatch(["outcome": .string("locked")], isPart: true) == nil)
    }
}
