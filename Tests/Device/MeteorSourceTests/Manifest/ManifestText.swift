import BundleValues
import MeteorSource

/// Manifests written by hand, so that tests show their faults.
enum ManifestText {
    static let hash = String(repeating: "1", count: 40)
    static let otherHash = String(repeating: "2", count: 40)

    static func entry(
        _ path: String, url: String? = nil, type: String = "js", hash: String? = hash, more: String = ""
    ) -> String {
        let hash = hash.map { ",\"hash\":\"\($0)\"" } ?? ""
        let url = url ?? "/\(path)?hash=1"
        return "{\"path\":\"\(path)\",\"where\":\"client\",\"type\":\"\(type)\",\"cacheable\":true,"
            + "\"url\":\"\(url)\"\(hash)\(more)}"
    }

    static func manifest(_ entries: [String], version: String = "version1", more: String = "") -> String {
        "{\"format\":\"web-program-pre1\",\"manifest\":[\(entries.joined(separator: ","))],\"version\":\"\(version)\","
            + "\"cordovaCompatibilityVersions\":{\"ios\":\"ios-1\",\"android\":\"android-1\"}\(more)}"
    }

    static func parse(_ text: String) throws -> AssetManifest { try AssetManifest(parsing: Array(text.utf8)) }

    static func parse(_ entries: [String]) throws -> AssetManifest { try parse(manifest(entries)) }

    /// Returns the error about a manifest, or nil if it is valid.
    static func refusal(of text: String, limits: AssetManifestLimits = AssetManifestLimits()) throws -> String? {
        do {
            _ = try AssetManifest(parsing: Array(text.utf8), limits: limits)
            return nil
        } catch let error as AssetManifestError {
            return error.failure.message
        }
    }
}
