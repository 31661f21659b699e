import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct ClientReferenceTests {
    private static func resolve(_ text: String, _ known: [String]) throws -> String {
        try ClientReference(text).resolve(among: try known.map(Sample.name)).description
    }

    @Test(arguments: [
        // By name, and by version alone.
        ("v1.0.0", ["1.0.0"], "v1.0.0"), ("1.0.0", ["1.0.0"], "v1.0.0"), ("embedded", ["embedded"], "embedded"),
        ("meteor-abc", ["meteor-abc"], "meteor-abc"), ("abc", ["1.0.0", "meteor-abc"], "meteor-abc"),
        ("1.0.0", ["meteor-1.0.0"], "meteor-1.0.0"),
        // A full name wins over a version with the same text.
        ("v1.0.0", ["1.0.0", "meteor-v1.0.0"], "v1.0.0"), ("meteor-x", ["meteor-x", "meteor-meteor-x"], "meteor-x"),
        ("meteor-x", ["meteor-meteor-x"], "meteor-meteor-x"),
        // Duplicates are ignored.
        ("1.0.0", ["1.0.0", "1.0.0"], "v1.0.0"),
        // An unknown client with an unambiguous name.
        ("1.2.3", [], "v1.2.3"), ("v1.2.3", ["1.0.0"], "v1.2.3"), ("embedded", [], "embedded"),
        ("meteor-abc", ["1.0.0"], "meteor-abc"),
    ])
    func `resolves a client by its name or version`(text: String, known: [String], meant: String) throws {
        #expect(try Self.resolve(text, known) == meant)
    }

    @Test func `refuses a version that both sources have`() throws {
        let failure = try #require(throws: UpdateFailure.self) {
            try Self.resolve("1.0.0", ["embedded", "meteor-1.0.0", "1.0.0"])
        }
        #expect(failure.code == .usage)
        #expect(failure.subject == "1.0.0")
        #expect(failure.message == "1.0.0 can be meteor-1.0.0 or v1.0.0. Write one of these names.")
    }

    @Test(arguments: ["", "abc", "meteor-", "meteor-../x", "1.0", "v", "a\u{1B}[2J", "Embedded"])
    func `refuses text that names no client`(text: String) throws {
        let failure = try #require(throws: UpdateFailure.self) { try Self.resolve(text, ["1.0.0", "meteor-x"]) }
        #expect(failure.code == .usage)
        #expect(failure.message.contains("is not a client of this store"))
        #expect(failure.message.unicodeScalars.allSatisfy { $0.value >= 32 })
    }

    @Test(arguments: [(["1.0.0"], true), (["1.0.0", "meteor-x"], false), ([], true)])
    func `explains the form of a version only to a store without Meteor clients`(
        known: [String], isExplained: Bool
    ) throws {
        let failure = try #require(throws: UpdateFailure.self) { try Self.resolve("verX", known) }
        #expect(failure.message.hasPrefix("verX is not a client of this store"))
        #expect(failure.message.contains("is not three numbers") == isExplained)
        #expect(failure.message.hasSuffix(". Run `clientctl list` for the names."))
    }

    @Test func `treats different Unicode spellings as two clients`() throws {
        let known = ["meteor-\u{E9}", "meteor-e\u{301}"]
        for text in ["\u{E9}", "e\u{301}"] {
            #expect(try Self.resolve(text, known).utf8.elementsEqual("meteor-\(text)".utf8))
        }
    }
}
