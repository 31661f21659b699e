import BundleTesting
import BundleValues
import BundleDisk
import BundleSigning
import Testing

/// An archive that must be refused.
struct HostileArchive: Sendable, CustomTestStringConvertible {
    let file: String
    /// The rules of which one must refuse the archive.
    let rules: [String]

    var testDescription: String { file }
    var path: String { "\(Fixtures.root)/hostile/\(file)" }
}

/// An archive that must be installed.
struct BenignArchive: Sendable, CustomTestStringConvertible {
    let file: String
    /// The SHA-256 of each file by path.
    let files: [String: String]

    var testDescription: String { file }
    var path: String { "\(Fixtures.root)/benign/\(file)" }
}

/// The archives that `Scripts/fixtures/make` writes.
enum Fixtures {
    static let root = "\(Checkout.root)/Fixtures"

    static func hostile() throws -> [HostileArchive] {
        try entries("hostile").map { entry in
            let rules = try #require(entry["rules"]?.arrayValue).compactMap(\.stringValue)
            return HostileArchive(file: try #require(entry["file"]?.stringValue), rules: rules)
        }
    }

    static func benign() throws -> [BenignArchive] {
        try entries("benign").map { entry in
            let files = try #require(entry["files"]?.objectValue).members.map { ($0.name, $0.value.stringValue ?? "") }
            return BenignArchive(
                file: try #require(entry["file"]?.stringValue), files: Dictionary(uniqueKeysWithValues: files))
        }
    }

    private static func entries(_ kind: String) throws -> [JSONObject] {
        let bytes = try File.open(reading: "\(root)/\(kind)/expected.json").readAll(maximumBytes: 64 << 20)
        let entries = try JSONScanner.parse(bytes, maximumBytes: bytes.count).arrayValue
        return try #require(entries).map { try #require($0.objectValue) }
    }
}
