package import BundleValues

/// Makes a Meteor bundle out of files: their hashes as some generation of servers makes them, a manifest and a page.
package struct MeteorBundleBuilder: Sendable {
    /// Where the version comes from.
    package enum Version: Sendable, Equatable {
        /// The digest of the entries (METEOR section 1.6).
        case computed
        /// Some other text, as `AUTOUPDATE_VERSION` makes it.
        case stated(String)
    }

    /// The version.
    package var version: Version
    /// How hashes are made.
    package var hashes: HashScheme
    /// The entries in order.
    package var entries: [BundleEntry]
    /// The page.
    package var page = IndexPage()
    /// `format`; absent for nil.
    package var format: String? = "web-program-pre1"
    /// `cordovaCompatibilityVersions`; absent for nil.
    package var compatibility: JSONObject? = ["ios": .string("ios-1"), "android": .string("android-1")]
    /// `PUBLIC_SETTINGS`; absent for nil.
    package var publicSettings: JSONValue?
    /// Whether every URL has the prefix and public assets a second entry without it, as from Meteor 1.7.
    package var hasPrefixedURLs = false
    /// The prefix of the architecture.
    package var prefix = "/__cordova"
    /// More members of the manifest; one of the same name takes the other's place.
    package var extra: JSONObject = [:]
    /// Files that are in the folder but not in the manifest, by path.
    package var unlisted: [(path: String, content: BundleContent)] = []

    /// A bundle of these entries.
    package init(_ version: Version = .computed, hashes: HashScheme = .modern, _ entries: [BundleEntry] = []) {
        self.version = version
        self.hashes = hashes
        self.entries = entries
    }

    /// The same, changed.
    package func with(_ change: (inout MeteorBundleBuilder) -> Void) -> MeteorBundleBuilder {
        var changed = self
        change(&changed)
        return changed
    }

    /// Reads every file once and makes the manifest and the page.
    package func build() throws -> MeteorBundle {
        var files: [MeteorBundle.File] = []
        var lines: [ManifestLine] = []
        var members: [JSONValue] = []
        for entry in entries {
            let line = try ManifestLine(entry, hashes: hashes, prefix: prefix, isPrefixed: hasPrefixedURLs)
            lines.append(line)
            members += line.members(withTwin: hasPrefixedURLs)
            files += line.files
        }
        for (path, content) in unlisted { files.append(.init(path: path, urlPath: path, content: content)) }
        let text = try version(of: members)
        let page = page.render(
            version: text, publicSettings: publicSettings, scripts: lines.compactMap { $0.link("js") },
            styles: lines.compactMap { $0.link("css") })
        return MeteorBundle(
            version: text, manifest: JSONWriter.bytes(of: manifest(text, members), layout: .pretty), page: page,
            files: files, entries: lines.map(\.summary))
    }

    private func version(of members: [JSONValue]) throws -> String {
        switch version {
        case .stated(let text): text
        case .computed: try VersionDigest.text(of: members, publicSettings: publicSettings)
        }
    }

    private func manifest(_ version: String, _ members: [JSONValue]) -> JSONValue {
        var manifest: JSONObject = [:]
        manifest["format"] = format.map(JSONValue.string)
        manifest["version"] = .string(version)
        manifest["cordovaCompatibilityVersions"] = compatibility.map(JSONValue.object)
        manifest["PUBLIC_SETTINGS"] = publicSettings
        manifest["manifest"] = .array(members)
        for member in extra.members { manifest[member.name] = member.value }
        return .object(manifest)
    }
}

/// The version of a bundle as a server computes it (METEOR section 1.6).
package enum VersionDigest {
    /// The digest of the manifest's entries in order and of the public settings; lower-case hex.
    package static func text(of entries: [JSONValue], publicSettings: JSONValue?) throws -> String {
        var config: JSONObject = [:]
        config["PUBLIC_SETTINGS"] = publicSettings
        var bytes = JSONWriter.bytes(of: .object(config))
        for entry in entries.compactMap(\.objectValue)
        where ["client", "internal"].contains(entry["where"]?.stringValue) {
            bytes += Array((entry["path"]?.stringValue ?? "").utf8)
            bytes += Array((entry["hash"]?.stringValue ?? "").utf8)
        }
        return try SHA1.hex(of: bytes)
    }
}

/// `cordovaCompatibilityVersions` as the Cordova builder computes them (METEOR section 1.6).
package enum CompatibilityDigest {
    /// The digest of a platform version and of plugins with their versions; lower-case hex.
    package static func text(platform: String, plugins: [String: String]) throws -> String {
        try SHA1.hex(of: platform + plugins.sorted { $0.key < $1.key }.map { $0.key + $0.value }.joined())
    }
}
