import BundleValues
import Testing

@Suite("SemanticVersion") struct SemanticVersionTests {
    @Test(arguments: [
        "0.0.4", "1.2.3", "10.20.30", "1.1.2-prerelease", "1.0.0-alpha", "1.0.0-beta", "1.0.0-alpha.beta",
        "1.0.0-alpha.beta.1", "1.0.0-alpha.1", "1.0.0-alpha0.valid", "1.0.0-alpha.0valid",
        "1.0.0-alpha-a.b-c-somethinglong", "2.0.0", "1.1.7", "1.2.3-beta", "10.2.3-DEV-SNAPSHOT",
        "1.2.3-SNAPSHOT-123", "2.0.1-alpha.1227", "1.0.0-rc.1", "1.2.3----RC-SNAPSHOT.12.9.1--.12",
        "1.0.0-0A.is.legal", "99999999999999999999999.999999999999999999.99999999999999999", "1.0.0-0", "0.0.0",
        "1.0.0-v", "1.0.0--", "1.0.0-x-y-z.--",
    ])
    func `accepts a valid version and keeps its text`(text: String) throws {
        let version = try SemanticVersion(parsing: text)
        #expect(version.description == text)
        #expect(version.folderName == "v" + text)
        #expect(try SemanticVersion(parsingFolderName: version.folderName) == version)
        #expect(try SemanticVersion(parsingArgument: text) == version)
        #expect(try SemanticVersion(parsingArgument: "v" + text) == version)
    }

    @Test(arguments: [
        "", "1", "1.2", "1.0", "alpha", "alpha.beta", "alpha.beta.1", "alpha.1", "alpha_beta", "alpha.", "alpha..",
        "beta", "-", "-1.0.3-gamma", "-alpha", "-alpha.", "1.2.3.DEV", "1.2-SNAPSHOT", "1.2-RC-SNAPSHOT", "1.2.3.4",
        ".1.2.3", "1..3", "1.2.", "1.2.3 ", " 1.2.3", "1.2.x", "=1.2.3", "1,2,3", "1.2.3\n", "1_0.2.3",
        "1.2.٣", "１.2.3", "1.2.3\u{301}", "1.2.3\u{0}", "a.b.c", "0x1.2.3", "-1.2.3", "V1.2.3", "^1.2.3",
    ])
    func `rejects a version that does not start with three numbers`(text: String) {
        #expect(throws: SemanticVersionError.notThreeNumbers(text: UntrustedName.display(text))) {
            try SemanticVersion(parsing: text)
        }
    }

    @Test(arguments: ["01.1.1", "1.01.1", "1.1.01", "1.2.3-0123", "1.2.3-0123.0123", "1.2.3-a.00", "00.0.0"])
    func `rejects a number with a leading zero`(text: String) {
        #expect(throws: SemanticVersionError.leadingZero(text: text)) { try SemanticVersion(parsing: text) }
    }

    @Test(arguments: ["1.0.0-", "1.0.0-alpha.", "1.0.0-alpha..", "1.0.0-alpha..1", "1.0.0-../etc", "1.0.0-.alpha"])
    func `rejects an empty identifier`(text: String) {
        #expect(throws: SemanticVersionError.emptyIdentifier(text: text)) { try SemanticVersion(parsing: text) }
    }

    @Test(arguments: [
        "1.0.0-alpha_beta", "1.0.0-a/b", "1.0.0-a b", "1.0.0-é", "1.0.0-a\u{301}", "1.0.0-a\n", "1.0.0-a\u{0}",
        "1.0.0-a\\b", "1.0.0-a:b", "1.0.0-a@b", "1.0.0-a[b", "1.0.0-a`b", "1.0.0-a{b", "1.0.0-\u{212A}", "1.0.0-٣",
    ])
    func `rejects an invalid character in the pre-release part`(text: String) {
        #expect(throws: SemanticVersionError.forbiddenCharacter(text: UntrustedName.display(text))) {
            try SemanticVersion(parsing: text)
        }
    }

    @Test(arguments: [
        "1.0.0+build", "1.1.2-prerelease+meta", "1.1.2+meta-valid", "+invalid", "1.2.3-a+", "1.0.0+", "+",
    ])
    func `rejects build metadata`(text: String) {
        #expect(throws: SemanticVersionError.buildMetadata(text: text)) { try SemanticVersion(parsing: text) }
    }

    @Test func `accepts a leading v only in arguments and folder names`() {
        #expect(throws: SemanticVersionError.leadingV(text: "v1.2.3")) { try SemanticVersion(parsing: "v1.2.3") }
        #expect(throws: SemanticVersionError.leadingV(text: "vv1.2.3")) {
            try SemanticVersion(parsingArgument: "vv1.2.3")
        }
        #expect(throws: SemanticVersionError.leadingV(text: "v1.2.3")) {
            try SemanticVersion(parsingFolderName: "vv1.2.3")
        }
        #expect(throws: SemanticVersionError.missingV(text: "1.2.3")) {
            try SemanticVersion(parsingFolderName: "1.2.3")
        }
        #expect(throws: SemanticVersionError.missingV(text: "V1.2.3")) {
            try SemanticVersion(parsingFolderName: "V1.2.3")
        }
        #expect(throws: SemanticVersionError.missingV(text: "")) { try SemanticVersion(parsingFolderName: "") }
        #expect(throws: SemanticVersionError.notThreeNumbers(text: "v")) { try SemanticVersion(parsingArgument: "v") }
    }

    @Test func `has at most 128 bytes`() throws {
        let longest = "1.0.0-" + String(repeating: "a", count: 122)
        #expect(try SemanticVersion(parsing: longest).description == longest)
        let error = #expect(throws: SemanticVersionError.self) { try SemanticVersion(parsing: longest + "a") }
        #expect(error == .tooLong(bytes: 129, text: UntrustedName.display(longest + "a")))
    }

    @Test func `has the version 0.0.0 without parsing`() throws {
        #expect(try SemanticVersion(parsing: "0.0.0") == .zero)
    }

    static let ascending = [
        "0.0.0-0", "0.0.0", "0.0.1", "0.1.0", "0.9.9", "1.0.0-0", "1.0.0-9", "1.0.0-10", "1.0.0-18446744073709551615",
        "1.0.0-18446744073709551616", "1.0.0-99999999999999999999999", "1.0.0-100000000000000000000000", "1.0.0--",
        "1.0.0--1", "1.0.0-0a", "1.0.0-A", "1.0.0-Z", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
        "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0-rc.1.0", "1.0.0-rc1", "1.0.0", "1.9.0", "1.10.0-rc.1",
        "1.10.0", "1.11.0", "2.0.0", "2.1.0", "2.1.1", "10.0.0", "9223372036854775807.0.0", "18446744073709551615.0.0",
        "18446744073709551616.0.0", "100000000000000000000000.0.0",
    ]

    @Test func `sorts any two versions by section 11 of the specification`() throws {
        let versions = try Self.ascending.map { try SemanticVersion(parsing: $0) }
        for (row, left) in versions.enumerated() {
            for (column, right) in versions.enumerated() {
                #expect((left < right) == (row < column), "\(left) < \(right)")
                #expect((left == right) == (row == column), "\(left) == \(right)")
            }
        }
    }

    @Test(arguments: [
        "", "v1.2.3", "1.2.3+b", "01.2.3", "1.2.3-", "1.2.3-a_b", "1.2.3-" + String(repeating: "\u{202E}", count: 300),
    ])
    func `describes an error in one printable line with the text`(text: String) {
        let error = #expect(throws: SemanticVersionError.self) { try SemanticVersion(parsing: text) }
        let message = error?.description ?? ""
        #expect(message.hasPrefix("the version \"\(UntrustedName.display(text))\" "))
        #expect(!message.unicodeScalars.contains("\u{202E}"))
    }

    @Test func `describes the error about a folder of another name`() {
        #expect(
            SemanticVersionError.missingV(text: "x").description.hasPrefix(
                "the name \"x\" is not the folder of a version"))
    }
}
