import Testing

@testable import BundleFormats
@testable import BundleCore
import BundleValues

struct MeteorVersionTests {
    private static let digest = "0123456789abcdef0123456789abcdef01234567"

    @Test(arguments: [
        "version1", digest, "2024 release", "v1.0.0", "1.0.0", "a", "a..b", "x.", "download", "embedded2", "caf\u{E9}",
        "日本",
        "-rf", "meteor-x", String(repeating: "n", count: 128),
    ])
    func `accepts any text that can name a folder, unchanged`(text: String) throws {
        let version = try MeteorVersion(parsing: text)
        #expect(version.description.utf8.elementsEqual(text.utf8))
        #expect(ClientVersion.meteor(version).folderName.utf8.elementsEqual(text.utf8))
        #expect(ClientName("meteor-\(text)") == .installed(.meteor(version)))
    }

    @Test(arguments: [
        ("", "empty"), (String(repeating: "n", count: 129), "tooLong 129"),
        (String(repeating: "é", count: 65), "tooLong 130"), (String(repeating: "x", count: 4096), "tooLong 4096"),
        ("../x", "refused"), ("..", "refused"), (".", "refused"), ("/x", "refused"), ("x/", "refused"),
        ("a//b", "refused"), ("a\u{0}b", "refused"), ("a\nb", "refused"), ("a/b", "notOneComponent"),
        ("a/.hidden", "notOneComponent"), (".hidden", "hidden"), ("...", "hidden"), ("embedded", "reserved"),
        ("Downloading", "reserved"), ("downloading", "reserved"), ("PartialDownload", "reserved"),
        ("PARTIALDOWNLOAD", "reserved"), ("Embedded", "reserved"),
    ])
    func `refuses text that cannot name a folder or is reserved`(text: String, word: String) throws {
        let error = try #require(throws: MeteorVersionError.self) { try MeteorVersion(parsing: text) }
        #expect(Self.word(error) == word)
        // The message is one line, whatever the server sent.
        #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 })
        #expect(error.description.utf8.count < 1000)
        #expect(ClientName("meteor-\(text)") == nil)
    }

    private static func word(_ error: MeteorVersionError) -> String {
        switch error {
        case .empty: "empty"
        case .tooLong(let bytes, _): "tooLong \(bytes)"
        case .refused: "refused"
        case .notOneComponent: "notOneComponent"
        case .hidden: "hidden"
        case .reserved: "reserved"
        }
    }

    @Test func `treats different Unicode spellings as two versions`() throws {
        let (composed, decomposed) = (try MeteorVersion(parsing: "\u{E9}"), try MeteorVersion(parsing: "e\u{301}"))
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(composed == (try MeteorVersion(parsing: "\u{E9}")))
    }
}

struct ClientVersionTests {
    @Test(arguments: [
        ("v1.5.0", "archive", "1.5.0", "v1.5.0"), ("meteor-1.5.0", "meteor", "1.5.0", "1.5.0"),
        ("meteor-v1.5.0", "meteor", "v1.5.0", "v1.5.0"), ("meteor-meteor-x", "meteor", "meteor-x", "meteor-x"),
    ])
    func `parses the source and the version of a name`(
        text: String, source: String, version: String, folder: String
    ) throws {
        let name = try #require(ClientName(text))
        #expect(name.description == text)
        #expect(name.shortDescription == version)
        #expect(name.version?.source.rawValue == source)
        #expect(name.version?.folderName == folder)
        let again = try ClientVersion(parsing: version, of: try #require(SourceName(rawValue: source)))
        #expect(name.version == again)
    }

    @Test(arguments: ["", "1.5.0", "v1.5", "vx", "meteor-", "meteor-../x", "meteor", "Embedded", "meteor-embedded"])
    func `refuses any other text as a name`(text: String) {
        #expect(ClientName(text) == nil)
    }

    @Test func `sorts archives by version, then Meteor bundles in the order of installation`() throws {
        var versions: [ClientVersion] = try ["meteor-b", "1.10.0", "meteor-a", "1.9.0", "meteor-c"].map(Sample.version)
        versions.sortByVersion(\.self)
        #expect(
            versions.map { "\($0.source) \($0)" } == [
                "archive 1.9.0", "archive 1.10.0", "meteor b", "meteor a", "meteor c",
            ])
    }
}

struct SourceOrderTests {
    @Test func `prefers hot code pushes by default`() {
        #expect(SourceOrder.standard.names == [.meteor, .archive])
        #expect(SourceOrder.standard.description == "meteor,archive")
    }

    @Test(arguments: [["archive"], ["meteor"], ["archive", "meteor"], ["meteor", "archive"]])
    func `parses a list of sources in its order and writes it back`(words: [String]) throws {
        let order = try #require(SourceOrder(words))
        #expect(order.names.map(\.rawValue) == words)
        #expect(order.description == words.joined(separator: ","))
    }

    @Test(arguments: [
        [], [""], ["archive", "archive"], ["meteor", "usb"], ["Archive"], ["archive", "meteor", "archive"],
    ])
    func `refuses a list that is empty, repeats a source or has an unknown one`(words: [String]) {
        #expect(SourceOrder(words) == nil)
    }
}
