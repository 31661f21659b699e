import BundleValues

/// One entry of a manifest, its values not yet checked.
struct ManifestEntry {
    enum Field: Int, CaseIterable {
        case path, `where`, type, cacheable, url, hash, size, sri, sourceMap, sourceMapUrl
    }

    private static let fields = Dictionary(uniqueKeysWithValues: Field.allCases.map { ("\($0)", $0) })

    let index: Int
    /// By the position of the field in the list of all.
    private var values = [JSONScalar?](repeating: nil, count: Field.allCases.count)

    /// Reads the element that comes next.
    init(_ reader: inout JSONReader, index: Int) throws {
        self.index = index
        guard try reader.kind() == .object else {
            throw AssetManifestError.member("manifest[\(index)]", problem: "is not an object")
        }
        try reader.enterObject()
        while let name = try reader.nextMember(maximumBytes: AssetManifestReader.longestText) {
            guard let field = Self.fields[name] else {
                _ = try reader.skipValue()
                continue
            }
            let value = try reader.readScalar(maximumBytes: AssetManifestReader.longestText)
            guard values[field.rawValue] == nil else { throw refusal(field, "stands there twice") }
            values[field.rawValue] = value
        }
    }

    func refusal(_ field: Field, _ problem: String) -> AssetManifestError {
        .member("manifest[\(index)].\(field)", problem: problem)
    }

    /// Whether it is one of the client's files; whose it is must be said, for a lost file is a hole in the client.
    var isForClient: Bool {
        get throws(AssetManifestError) { try string(.where) == "client" }
    }

    /// Whether its path and hash go into the version.
    var isDigested: Bool { text(.where) == "client" || text(.where) == "internal" }

    /// The text of a field, nil for anything else.
    func text(_ field: Field) -> String? { if case .string(let text) = values[field.rawValue] { text } else { nil } }

    func string(_ field: Field) throws(AssetManifestError) -> String {
        guard let text = try optionalString(field) else { throw refusal(field, "is missing") }
        return text
    }

    /// Nil where it is absent or null.
    func optionalString(_ field: Field) throws(AssetManifestError) -> String? {
        switch values[field.rawValue] ?? .null {
        case .null: return nil
        case .string(let text): return text
        default: throw refusal(field, "is not a string")
        }
    }

    func bool(_ field: Field) throws(AssetManifestError) -> Bool {
        switch values[field.rawValue] ?? .null {
        case .null: throw refusal(field, "is missing")
        case .bool(let flag): return flag
        default: throw refusal(field, "is not true or false")
        }
    }

    /// An integer of 0 or more; nil where it is absent or null.
    func optionalInteger(_ field: Field) throws(AssetManifestError) -> Int? {
        switch values[field.rawValue] ?? .null {
        case .null: return nil
        case .integer(let number) where number >= 0: return number
        default: throw refusal(field, "is not an integer of 0 or more")
        }
    }
}
