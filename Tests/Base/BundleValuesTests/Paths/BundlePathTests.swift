import BundleValues
import Testing

@Suite("BundlePath") struct BundlePathTests {
    private static func refusal(of bytes: [UInt8]) -> BundlePathError? {
        do {
            _ = try BundlePath(parsing: bytes)
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        "index.html", "a/b/c.js", "assets/app.3f2a.js", ".well-known/x", "..a", "a..", "...", "a/.../b", ".a/b", "a./b",
        "a b",
        "-rf", "$(id)", "%2e%2e/x", "~root", "CON", "NUL.txt", "._x", "c:x", "c:/windows", "a:b", "é.js", "e\u{301}.js",
        "日本語/ファイル", "😀.png", "❤\u{FE0F}.svg", "\u{A0}", "\u{200A}", "\u{2010}", "\u{2027}", "\u{202F}", "\u{2065}",
        "\u{2070}", "\u{061B}", "\u{061D}", "\u{180D}", "\u{180F}", "\u{E0080}", "\u{FEFE}", "\u{AC}", "\u{AE}",
        "\u{D7FF}",
        "\u{E000}", "\u{10FFFF}", "!\"#$%&'()*+,;<=>?@[]^`{|}",
    ])
    func `accepts an unusual but harmless path unchanged`(text: String) throws {
        let path = try BundlePath(parsing: text)
        #expect(path.bytes == Array(text.utf8))
        #expect(Array(path.string.utf8) == Array(text.utf8))
        #expect(Array(path.description.utf8) == Array(text.utf8))
        #expect(try BundlePath(parsing: [UInt8](text.utf8)) == path)
        #expect(path.components.map { Array($0) }.joined(separator: [0x2F]).elementsEqual(text.utf8))
    }

    @Test(arguments: ["/", "//", "/a", "/..", "//a/b", "/etc/passwd", "/\u{301}a", "/\0"])
    func `rejects an absolute path`(text: String) {
        let error = Self.refusal(of: Array(text.utf8))
        #expect(error == .absolute(path: UntrustedName.display(text)))
        #expect(error?.rule == "path-absolute")
    }

    @Test(arguments: [
        "..", "../", "../a", "a/..", "a/../", "a/../b", "a/b/../../../c", "../\u{301}evil", "a/..//\u{301}", "./..",
        "a//..",
        "..\u{2F}\u{338}x", "../\\x", "../\u{202E}",
    ])
    func `rejects a component of two dots`(text: String) {
        let error = Self.refusal(of: Array(text.utf8))
        #expect(error == .traversal(path: UntrustedName.display(text)))
        #expect(error?.rule == "path-traversal")
    }

    @Test func `rejects two dots beside invalid bytes as a traversal`() {
        #expect(Self.refusal(of: [0xFF, 0x2F, 0x2E, 0x2E])?.rule == "path-traversal")
        #expect(Self.refusal(of: [0x2E, 0x2E, 0x2F, 0xCC])?.rule == "path-traversal")
    }

    static let forbidden: [UInt32] =
        Array(0..<0x20) + [0x5C] + Array(0x7F...0x9F) + [0xAD, 0x061C, 0x180E] + Array(0x200B...0x200F)
        + Array(0x2028...0x202E) + Array(0x2060...0x2064) + Array(0x2066...0x2069) + [
            0xFEFF, 0xE0000, 0xE0001, 0xE0020,
        ]
        + [0xE007F]

    @Test(arguments: forbidden)
    func `rejects a hiding or reordering character at any position`(value: UInt32) throws {
        let scalar = String(try #require(Unicode.Scalar(value)))
        for text in [scalar, "a\(scalar)b", "a/\(scalar)", "\(scalar)/a", "é\(scalar)"] {
            let error = Self.refusal(of: Array(text.utf8))
            #expect(error == .forbiddenCharacter(scalar: value, path: UntrustedName.display(text)))
            #expect(error?.rule == "name-forbidden-char")
            #expect(error?.path.unicodeScalars.contains { $0.value == value && value != 0x5C } == false)
        }
    }

    @Test func `accepts all other code points`() {
        let forbidden = Set(Self.forbidden).union(0xE0000...0xE007F).union([0x2F])
        for value in (1...0x3000 as ClosedRange<UInt32>) where !forbidden.contains(value) {
            guard let scalar = Unicode.Scalar(value) else { continue }
            if let error = Self.refusal(of: Array("a\(scalar)".utf8)) { Issue.record("\(error)") }
        }
    }

    @Test(arguments: IllFormedUTF8.all)
    func `rejects bytes that are not UTF-8`(bad: [UInt8]) {
        for bytes in [bad, Array("a/b".utf8) + bad, bad + Array("/c".utf8), Array("é".utf8) + bad + Array("é".utf8)] {
            let error = Self.refusal(of: bytes)
            #expect(error == .notUTF8(path: UntrustedName.display(bytes)))
            #expect(error?.rule == "name-not-utf8")
        }
    }

    @Test(arguments: ["", ".", "./", "./a", "a/", "a//b", "a/./b", "a/.", "a//", "././a", "é/./b", "a/ /", "é//"])
    func `rejects a path that is not canonical`(text: String) {
        let error = Self.refusal(of: Array(text.utf8))
        #expect(error == .notCanonical(path: UntrustedName.display(text)))
        #expect(error?.rule == "name-not-canonical")
    }

    @Test func `limits the length, the component length and the depth`() throws {
        let name = [UInt8](repeating: 0x61, count: 255)
        #expect(try BundlePath(parsing: name).bytes == name)
        #expect(
            Self.refusal(of: name + [0x61]) == .componentTooLong(bytes: 256, path: UntrustedName.display(name + [0x61]))
        )
        #expect(Self.refusal(of: [0x62, 0x2F] + name + [0x61, 0x2F, 0x62])?.rule == "name-too-long")

        let longest = Array([name, name, name, name].joined(separator: [0x2F])) + [0x2F]
        #expect(longest.count == 1024)
        let fits = Array(longest.dropLast(3)) + [0x2F, 0x61, 0x61]
        #expect(try BundlePath(parsing: fits).bytes.count == 1024)
        let error = Self.refusal(of: fits + [0x61])
        #expect(error == .pathTooLong(bytes: 1025, path: UntrustedName.display(fits + [0x61])))
        #expect(error?.rule == "name-too-long")

        let deep = (0..<32).map { "\($0)" }.joined(separator: "/")
        #expect(try BundlePath(parsing: deep).components.count == 32)
        #expect(Self.refusal(of: Array("\(deep)/x".utf8)) == .tooDeep(components: 33, path: "\(deep)/x"))
        #expect(BundlePathError.tooDeep(components: 33, path: "").rule == "too-deep")
    }

    @Test func `splits a path into parent, name and components`() throws {
        let path = try BundlePath(parsing: "a/bc/d.é")
        #expect(path.components.map { String(decoding: $0, as: UTF8.self) } == ["a", "bc", "d.é"])
        #expect(path.name == "d.é")
        #expect(Array(path.nameBytes) == Array("d.é".utf8))
        #expect(path.parent == (try BundlePath(parsing: "a/bc")))
        #expect(path.parent?.parent?.string == "a")
        #expect(path.parent?.parent?.parent == nil)
        #expect(path.parent?.parent?.name == "a")
    }

    @Test func `sorts and compares paths by their bytes`() throws {
        let texts = ["B", "a", "a-b", "a/b", "a0", "aa", "e\u{301}", "é", "\u{FF21}", "😀"]
        let paths = try texts.map { try BundlePath(parsing: $0) }
        for (row, left) in paths.enumerated() {
            for (column, right) in paths.enumerated() {
                #expect((left < right) == (row < column))
                #expect((left == right) == (row == column))
            }
        }
        #expect(Set(paths).count == texts.count)
        #expect(Set(paths).contains(try BundlePath(parsing: "a/b")))
    }

    @Test(arguments: [
        ("a", false, "a"), ("./a", false, "a"), ("./a/b", false, "a/b"), ("a/", true, "a"), ("./a/", true, "a"),
        ("a", true, "a"),
        ("./a/b/", true, "a/b"), (".a/", true, ".a"), ("./.a", false, ".a"), ("./\u{301}", false, "\u{301}"),
    ])
    func `removes a leading dot and slash from an entry name, and a final slash from a folder's`(
        name: String, isFolder: Bool, path: String
    )
        throws
    {
        #expect(try BundlePath(archiveEntryName: name.utf8, isDirectory: isFolder).bytes == Array(path.utf8))
    }

    @Test(arguments: [
        ("a/", false, "name-not-canonical"), ("././a", false, "name-not-canonical"),
        ("a//", true, "name-not-canonical"),
        ("./", true, "name-not-canonical"), ("./", false, "name-not-canonical"), (".", true, "name-not-canonical"),
        ("", true, "name-not-canonical"), ("/", true, "path-absolute"), ("//", true, "path-absolute"),
        (".//", true, "path-absolute"), (".//etc/passwd", false, "path-absolute"), ("/a/", true, "path-absolute"),
        ("./../a", false, "path-traversal"), ("../", true, "path-traversal"), ("./../", true, "path-traversal"),
        ("./..", false, "path-traversal"), ("a\\b/", true, "name-forbidden-char"),
        ("./\u{FEFF}", false, "name-forbidden-char"),
    ])
    func `rejects an entry name that needs more repair`(name: String, isFolder: Bool, rule: String) {
        let error = #expect(throws: BundlePathError.self) {
            try BundlePath(archiveEntryName: [UInt8](name.utf8), isDirectory: isFolder)
        }
        #expect(error?.rule == rule)
    }

    @Test func `recognizes only dot slash as the root of an archive`() {
        #expect(BundlePath.isArchiveRoot(entryName: "./".utf8))
        for name in ["", ".", "/", "..", "./a", "a/", "././", "/."] {
            #expect(!BundlePath.isArchiveRoot(entryName: name.utf8))
        }
    }

    @Test(
        arguments: [
            ([0x2F, 0x0A], "the path \"/\\x0A\" is absolute"), ([0x2E, 0x2E], "has a component \"..\""),
            ([0xFF], "the path \"\\xFF\" is not valid UTF-8"), ([0x07], "the forbidden character U+0007;"),
            (Array("\u{E0041}".utf8), "the forbidden character U+E0041;"), ([0x2E], "is not canonical"),
            ([UInt8](repeating: 0x61, count: 256), "has a name of 256 bytes; use at most 255"),
            ([UInt8](repeating: 0x61, count: 1025), "has 1025 bytes; use at most 1024"),
            (Array(String(repeating: "a/", count: 33).utf8) + [0x61], "has 34 components; use at most 32"),
        ] as [([UInt8], String)])
    func `describes an error with the path, the rule and the remedy`(bytes: [UInt8], part: String) throws {
        let error = try #require(Self.refusal(of: bytes))
        #expect(error.description.contains(part))
        #expect(error.description.contains("; "))
        #expect(error.path == UntrustedName.display(bytes))
    }
}
