import BundleCore
import BundleValues

/// An entry with its computed values.
struct ManifestLine {
    private let entry: BundleEntry
    private let hash: String?
    private let sri: String?
    private let size: Int?
    /// The URL with its prefix and query.
    private let url: String?
    /// The prefix that a server removes before it looks for a file.
    private let prefix: String
    private let sourceMap: (path: String, url: String, content: BundleContent)?

    init(_ entry: BundleEntry, hashes: HashScheme, prefix: String, isPrefixed: Bool) throws {
        let front = isPrefixed ? prefix : ""
        let digests = try entry.content.map { try ContentDigests(of: $0) }
        let hash: String? =
            switch entry.hash {
            case .stated(let text): text
            case .absent: nil
            case .computed:
                try digests.map {
                    try hashes.hash(of: $0, isPublicAsset: entry.isPublicAsset, inputHash: entry.inputHash)
                }
            }
        self.entry = entry
        self.prefix = prefix
        self.hash = hash
        switch entry.sri {
        case .stated(let text): sri = text
        case .absent: sri = nil
        case .computed: sri = hashes.statesSRI(isPublicAsset: entry.isPublicAsset) ? digests?.sri : nil
        }
        size = entry.statesSize ? entry.size ?? digests?.size : nil
        let url = entry.url.map { front + $0.replacing("{hash}", with: hash ?? "") }
        self.url = url
        sourceMap = entry.sourceMap.map { map in
            let folder = (url ?? "/").prefix { $0 != "?" }
            let name = folder[...(folder.lastIndex(of: "/") ?? folder.startIndex)] + "\(hash ?? "").map"
            return (map.path ?? entry.path + ".map", map.url.map { front + $0 } ?? String(name), map.content)
        }
    }

    /// Returns the entry as in the manifest, and its copy without prefix if there is one.
    func members(withTwin: Bool) -> [JSONValue] {
        let whole = member(url: url)
        guard withTwin, entry.isPublicAsset, let twin = entry.url?.replacing("{hash}", with: hash ?? "") else {
            return [whole]
        }
        return [whole, member(url: twin)]
    }

    private func member(url: String?) -> JSONValue {
        var object: JSONObject = ["path": .string(entry.path), "where": .string(entry.place)]
        object["type"] = .string(entry.type)
        if url != nil { object["cacheable"] = .bool(entry.isCacheable) }
        object["url"] = url.map(JSONValue.string)
        object["sourceMap"] = sourceMap.map { .string($0.path) }
        object["sourceMapUrl"] = sourceMap.map { .string($0.url) }
        object["size"] = size.map(JSONValue.integer)
        object["hash"] = hash.map(JSONValue.string)
        object["sri"] = sri.map(JSONValue.string)
        for member in entry.extra.members { object[member.name] = member.value }
        return .object(object)
    }

    var files: [MeteorBundle.File] {
        var files: [MeteorBundle.File] = []
        if let content = entry.content {
            let urlPath = entry.url.map { ServerPath.ofFile($0, prefix: prefix) }
            files.append(.init(path: entry.path, urlPath: urlPath, content: content))
        }
        if let sourceMap {
            let urlPath = ServerPath.ofFile(sourceMap.url, prefix: prefix)
            files.append(.init(path: sourceMap.path, urlPath: urlPath, content: sourceMap.content))
        }
        return files
    }

    /// Returns the URL for the page if the entry has this type.
    func link(_ type: String) -> String? { entry.type == type ? url : nil }

    var summary: MeteorBundle.Entry {
        .init(path: entry.path, url: url, hash: hash, sri: sri, size: size, sourceMapURL: sourceMap?.url)
    }
}

/// Paths in the folder of a server.
enum ServerPath {
    /// Returns the file of a URL: its path without query, prefix and leading slash.
    static func ofFile(_ url: String, prefix: String) -> String {
        let path = url.prefix { $0 != "?" && $0 != "#" }
        let bare = path.hasPrefix(prefix + "/") ? path.dropFirst(prefix.count) : path
        return String(bare.drop { $0 == "/" })
    }
}
