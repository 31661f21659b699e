import BundleValues

/// Reads a manifest in one pass and keeps only the values that it needs.
struct AssetManifestReader {
    /// The longest accepted text as written, in bytes. The longest path fits with every byte escaped.
    static let longestText = 8192
    /// The largest nesting. Settings can be nested.
    private static let deepest = 64

    private var reader: JSONReader
    private let limits: AssetManifestLimits
    private var seen: Set<String> = []
    private var versionText: JSONScalar = .null
    private var settings: Range<Int>?
    private var hasEntries = false
    /// nil if the version is not to be computed.
    private var digestInput: [UInt8]?
    private let bytes: [UInt8]

    private(set) var compatibility: [MeteorPlatform: String] = [:]
    private(set) var collector: AssetCollector

    init(_ bytes: [UInt8], limits: AssetManifestLimits) throws(AssetManifestError) {
        try self.init(bytes, limits: limits, collector: AssetCollector(folderLimit: limits.folders))
        digestInput = []
    }

    init(
        _ bytes: [UInt8], limits: AssetManifestLimits, collector: AssetCollector
    ) throws(AssetManifestError) {
        guard bytes.count <= limits.bytes else { throw .tooLarge(bytes: bytes.count, limit: limits.bytes) }
        if HTMLSniff.isMarkup(bytes.prefix(HTMLSniff.length)) { throw .page }
        do throws(JSONError) {
            reader = try JSONReader(bytes, maximumBytes: limits.bytes, maximumDepth: Self.deepest)
        } catch {
            throw .unreadable(error)
        }
        self.bytes = bytes
        self.limits = limits
        self.collector = collector
    }

    mutating func read() throws {
        do {
            guard try reader.kind() == .object else { throw AssetManifestError.notAnObject }
            try reader.enterObject()
            while let name = try reader.nextMember(maximumBytes: Self.longestText) { try readMember(name) }
            try reader.finish()
        } catch let error as JSONError {
            throw AssetManifestError.unreadable(error)
        }
        if !hasEntries { throw AssetManifestError.member("manifest", problem: "is missing") }
    }

    /// Returns the version. It is checked last, so that problems of the document itself are reported first.
    func version() throws(AssetManifestError) -> MeteorVersion {
        switch versionText {
        case .null: throw .noVersion
        case .string(let text):
            do throws(MeteorVersionError) { return try MeteorVersion(parsing: text) } catch { throw .version(error) }
        default: throw .member("version", problem: "is not a string")
        }
    }

    func identity(of version: MeteorVersion) throws -> ManifestIdentity {
        guard let digestInput else { return .stated }
        let settings = settings.map { ManifestIdentity.compact(bytes[$0]) }
        let digest = try ManifestIdentity.version(publicSettings: settings, pathsAndHashes: digestInput)
        return digest == version.description ? .computed : .stated
    }

    // MARK: Members

    private mutating func readMember(_ name: String) throws {
        let known = ["format", "version", "manifest", "cordovaCompatibilityVersions", "PUBLIC_SETTINGS"]
        if known.contains(name), !seen.insert(name).inserted {
            throw AssetManifestError.member(name, problem: "is repeated")
        }
        switch name {
        case "format": try readFormat()
        case "version": versionText = try reader.readScalar(maximumBytes: Self.longestText)
        case "manifest": try readEntries()
        case "cordovaCompatibilityVersions": try readCompatibility()
        case "PUBLIC_SETTINGS": settings = try reader.skipValue()
        default: _ = try reader.skipValue()
        }
    }

    private mutating func readFormat() throws {
        switch try reader.readScalar(maximumBytes: Self.longestText) {
        case .null, .string(AssetManifest.format): return
        case .string(let text): throw AssetManifestError.incompatibleFormat(text)
        default: throw AssetManifestError.member("format", problem: "is not a string")
        }
    }

    private mutating func readCompatibility() throws {
        let member = "cordovaCompatibilityVersions"
        guard try reader.kind() != .null else {
            _ = try reader.skipValue()
            return
        }
        guard try reader.kind() == .object else { throw AssetManifestError.member(member, problem: "is not an object") }
        try reader.enterObject()
        while let name = try reader.nextMember(maximumBytes: Self.longestText) {
            guard let platform = MeteorPlatform(rawValue: name) else {
                _ = try reader.skipValue()
                continue
            }
            switch try reader.readScalar(maximumBytes: Self.longestText) {
            case .null: break
            case .string(let version):
                guard compatibility.updateValue(version, forKey: platform) == nil else {
                    throw AssetManifestError.member("\(member).\(name)", problem: "is repeated")
                }
            default: throw AssetManifestError.member("\(member).\(name)", problem: "is not a string")
            }
        }
    }

    private mutating func readEntries() throws {
        guard try reader.kind() == .array else {
            throw AssetManifestError.member("manifest", problem: "is not an array")
        }
        hasEntries = true
        try reader.enterArray()
        var index = 0
        while try reader.nextElement() {
            guard index < limits.entries else { throw AssetManifestError.tooManyEntries(limit: limits.entries) }
            let entry = try ManifestEntry(&reader, index: index)
            addToDigest(entry)
            if try entry.isForClient { try collector.add(entry) }
            index += 1
        }
    }

    /// Appends the text that the server digests (METEOR section 1.6). Without a path or hash, the digest cannot be computed.
    private mutating func addToDigest(_ entry: ManifestEntry) {
        guard entry.isDigested else { return }
        guard let path = entry.text(.path), let hash = entry.text(.hash) else {
            digestInput = nil
            return
        }
        digestInput?.append(contentsOf: path.utf8)
        digestInput?.append(contentsOf: hash.utf8)
    }
}
