import BundleSigning
import BundleValues

/// An entry of a manifest with unchecked values.
struct ManifestEntry {
    enum EntryField: Int, CaseIterable {
        case path, `where`, type, cacheable, url, hash, size, sri, sourceMap, sourceMapUrl
    }

    private static let fields = Dictionary(uniqueKeysWithValues: EntryField.allCases.map { ("\($0)", $0) })

    let index: Int
    /// The values in the order of the fields.
    private var values = [JSONScalar?](repeating: nil, count: EntryField.allCases.count)

    /// Reads the next element.
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
            guard values[field.rawValue] == nil else { throw refusal(field, "is repeated") }
            values[field.rawValue] = value
        }
    }

    func refusal(_ field: EntryField, _ problem: String) -> AssetManifestError {
        .member("manifest[\(index)].\(field)", problem: problem)
    }

    /// Whether the entry is a file of the client. The field must be present, because a missing file would break the
    /// client.
    var isForClient: Bool {
        get throws(AssetManifestError) { try string(.where) == "client" }
    }

    /// Whether the version covers the path and hash.
    var isDigested: Bool { text(.where) == "client" || text(.where) == "internal" }

    /// Returns the text of a field, or nil if it is not a string.
    func text(_ field: EntryField) -> String? {
        if case .string(let text) = values[field.rawValue] { text } else { nil }
    }

    func string(_ field: EntryField) throws(AssetManifestError) -> String {
        guard let text = try optionalString(field) else { throw refusal(field, "is missing") }
        return text
    }

    /// Returns nil if the field is absent or null.
    func optionalString(_ field: EntryField) throws(AssetManifestError) -> String? {
        switch values[field.rawValue] ?? .null {
        case .null: return nil
        case .string(let text): return text
        default: throw refusal(field, "is not a string")
        }
    }

    func bool(_ field: EntryField) throws(AssetManifestError) -> Bool {
        switch values[field.rawValue] ?? .null {
        case .null: throw refusal(field, "is missing")
        case .bool(let flag): return flag
        default: throw refusal(field, "is not true or false")
        }
    }

    /// Returns an integer of 0 or more, or nil if the field is absent or null.
    func optionalInteger(_ field: EntryField) throws(AssetManifestError) -> Int? {
        switch values[field.rawValue] ?? .null {
        case .null: return nil
        case .integer(let number) where number >= 0: return number
        default: throw refusal(field, "is not an integer of 0 or more")
        }
    }
}

/// The validated values of an entry.
extension ManifestEntry {
    /// The path of an asset as a URL and in the client's folder.
    struct Location {
        let url: BundlePath
        let file: BundlePath
        /// The URL path with its leading slash; `/` for the index page.
        let urlPath: String

        init(url: BundlePath, file: BundlePath) {
            self.url = url
            self.file = file
            urlPath = url == .index ? "/" : "/\(url)"
        }
    }

    private static let longestHash = 128

    /// Returns the location of the entry.
    func location() throws(AssetManifestError) -> Location {
        let file = try filePath(.path)
        return Location(url: try urlPath(.url), file: file)
    }

    /// Returns the location of the source map, or nil unless the manifest has both of its fields.
    func sourceMapLocation() throws(AssetManifestError) -> Location? {
        guard try optionalString(.sourceMap) != nil, try optionalString(.sourceMapUrl) != nil else { return nil }
        return Location(url: try urlPath(.sourceMapUrl), file: try filePath(.sourceMap))
    }

    func asset(at location: Location, sourceMap: Location?) throws(AssetManifestError) -> MeteorAsset {
        MeteorAsset(
            urlPath: location.urlPath, file: location.file, kind: MeteorAsset.Kind(type: try string(.type)),
            isCacheable: try bool(.cacheable), hash: try contentHash(), sri: try integrity(),
            size: try optionalInteger(.size), sourceMapURL: sourceMap?.urlPath)
    }

    private func filePath(_ field: EntryField) throws(AssetManifestError) -> BundlePath {
        let text = try string(field)
        do throws(BundlePathError) {
            return try BundlePath(parsing: text)
        } catch {
            throw refusal(field, "is refused: \(error) (\(error.rule))")
        }
    }

    private func urlPath(_ field: EntryField) throws(AssetManifestError) -> BundlePath {
        let text = try string(field)
        guard text.utf8.first == UInt8(ascii: "/") else {
            throw refusal(field, "\"\(UntrustedName.display(text))\" is refused: it does not start with a slash")
        }
        do throws(URLPathError) {
            return try BundlePath(url: text)
        } catch {
            throw refusal(
                field,
                "\"\(UntrustedName.display(text))\" is refused: its path does not name a file of a client (\(error))")
        }
    }

    /// Returns the hash. It becomes part of an entity tag, so it must have the characters of one (RFC 9110, section
    /// 8.8.3).
    private func contentHash() throws(AssetManifestError) -> String? {
        guard let hash = try optionalString(.hash) else { return nil }
        let isLegal = hash.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") }
        guard isLegal, (1...Self.longestHash).contains(hash.utf8.count) else {
            throw refusal(
                .hash, "\"\(UntrustedName.display(hash))\" is not 1 to \(Self.longestHash) printable characters")
        }
        return hash
    }

    private func integrity() throws(AssetManifestError) -> [UInt8]? {
        guard let text = try optionalString(.sri) else { return nil }
        guard let digest = try? Base64.decode(text), digest.count == LabelAlgorithm.sha512.byteCount else {
            throw refusal(.sri, "is not the base64 of a SHA-512")
        }
        return digest
    }
}
