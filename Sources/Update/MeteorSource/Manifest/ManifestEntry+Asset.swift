import BundleValues
import BundleSigning

/// The values of an entry, by the rules for assets.
extension ManifestEntry {
    /// A path as the manifest names it and as the client's folder has it.
    struct Location {
        let url: BundlePath
        let file: BundlePath
        /// The URL path, with its leading slash; that of the index page is the root.
        let urlPath: String

        init(url: BundlePath, file: BundlePath) {
            self.url = url
            self.file = file
            urlPath = url == .index ? "/" : "/\(url)"
        }
    }

    private static let longestHash = 128

    /// Where the entry itself is.
    func location() throws(AssetManifestError) -> Location {
        let file = try filePath(.path)
        return Location(url: try urlPath(.url), file: file)
    }

    /// Where its source map is; nil unless the manifest says both.
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

    private func filePath(_ field: Field) throws(AssetManifestError) -> BundlePath {
        let text = try string(field)
        do throws(BundlePathError) {
            return try BundlePath(parsing: text)
        } catch {
            throw refusal(field, "is refused: \(error) (\(error.rule))")
        }
    }

    private func urlPath(_ field: Field) throws(AssetManifestError) -> BundlePath {
        let text = try string(field)
        guard text.utf8.first == UInt8(ascii: "/") else {
            throw refusal(field, "\"\(UntrustedName.display(text))\" is refused: it does not begin with a slash")
        }
        do throws(URLPathError) {
            return try BundlePath(url: text)
        } catch {
            throw refusal(
                field, "\"\(UntrustedName.display(text))\" is refused: its path names no file of a client (\(error))")
        }
    }

    /// It becomes part of an entity tag, whose letters these are (RFC 9110, section 8.8.3).
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
