import BundleCore
import BundleValues
import BundleDisk

/// A folder in the server layout with the entries of its manifest.
struct ServedVersion: Sendable {
    /// The values of an entry for the headers of its URL.
    struct Label: Sendable {
        let hash: String?
        let type: String
        let isCacheable: Bool
        let sourceMapURL: String?
    }

    /// The name under which it is served.
    let name: String
    let folder: String
    /// The `version` of the manifest; nil for an unreadable manifest, whose assets have no labels.
    let version: String?
    /// The labels by URL path, including a prefix.
    let labels: [String: Label]
    /// The URL paths of source maps.
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

    /// Returns the bytes of a file, or nil if it does not exist or the path leaves the folder.
    func contents(_ path: String) -> [UInt8]? {
        guard !path.isEmpty, !path.split(separator: "/").contains("..") else { return nil }
        return try? File.open(reading: "\(folder)/\(path)").readAll(maximumBytes: 1 << 30)
    }

    private static func path(of url: String) -> String { String(url.prefix { $0 != "?" && $0 != "#" }) }
}
