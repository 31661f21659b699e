import BundleCore
import BundleValues
import BundleDisk

/// A folder in the server layout, with what its manifest says about the files.
struct ServedVersion: Sendable {
    /// What headers need to know about a URL.
    struct Label: Sendable {
        let hash: String?
        let type: String
        let isCacheable: Bool
        let sourceMapURL: String?
    }

    /// What it is served as.
    let name: String
    let folder: String
    /// The `version` of the manifest; nil for a manifest that cannot be read, whose assets are served without labels.
    let version: String?
    /// By URL path, with its prefix if it has one.
    let labels: [String: Label]
    /// URL paths of source maps.
    let sourceMaps: Set<String>

    init(_ name: String, folder: String) throws {
        self.name = name
        self.folder = folder
        guard let bytes = try Directory.open(folder).contents("manifest.json", maximumBytes: 1 << 28) else {
            throw BundleFolderError(
                message: "\(folder) has no manifest.json; write a bundle there in the server layout")
        }
        let manifest = try? JSONScanner.parse(bytes, maximumBytes: 1 << 28).objectValue
        version = manifest?["version"]?.stringValue
        var labels: [String: Label] = [:]
        var sourceMaps: Set<String> = []
        for entry in (manifest?["manifest"]?.arrayValue ?? []).compactMap(\.objectValue) {
            guard entry["where"]?.stringValue == "client", let url = entry["url"]?.stringValue else { continue }
            let map = entry["sourceMapUrl"]?.stringValue
            labels[Self.path(of: url)] = Label(
                hash: entry["hash"]?.stringValue, type: entry["type"]?.stringValue ?? "asset",
                isCacheable: entry["cacheable"]?.boolValue ?? false, sourceMapURL: map)
            if let map { sourceMaps.insert(Self.path(of: map)) }
        }
        self.labels = labels
        self.sourceMaps = sourceMaps
    }

    /// The bytes of a file; nil where there is none, and for a path that leads out.
    func contents(_ path: String) -> [UInt8]? {
        guard !path.isEmpty, !path.split(separator: "/").contains("..") else { return nil }
        return try? File.open(reading: "\(folder)/\(path)").readAll(maximumBytes: 1 << 30)
    }

    private static func path(of url: String) -> String { String(url.prefix { $0 != "?" && $0 != "#" }) }
}
