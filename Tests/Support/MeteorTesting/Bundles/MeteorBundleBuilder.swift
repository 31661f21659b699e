package import BundleValues

/// Builds a Meteor bundle with a manifest and a page from files, with the hashes of a generation of servers.
package struct MeteorBundleBuilder: Sendable {
    /// The source of the version.
    package enum Version: Sendable, Equatable {
        /// The digest of the entries (METEOR section 1.6).
        case computed
        /// Another text, as from `AUTOUPDATE_VERSION`.
        case stated(String)
    }

    package var version: Version
    package var hashes: HashScheme
    package var entries: [BundleEntry]
    package var page = IndexPage()
    /// `format`; nil to omit it.
    package var format: String? = "web-program-pre1"
    /// `cordovaCompatibilityVersions`; nil to omit it.
    package var compatibility: JSONObject? = ["ios": .string("ios-1"), "android": .string("android-1")]
    /// `PUBLIC_SETTINGS`; nil to omit it.
    package var publicSettings: JSONValue?
    /// Whether every URL has the prefix and public assets a second entry without it, as from Meteor 1.7.
    package var hasPrefixedURLs = false
    /// The prefix of the architecture.
    package var prefix = "/__cordova"
    /// More members of the manifest. They replace members of the same name.
    package var extra: JSONObject = [:]
    /// The files in the folder that the manifest does not list, by path.
    package var unlisted: [(path: String, content: BundleContent)] = []

    package init(_ version: Version = .computed, hashes: HashScheme = .modern, _ entries: [BundleEntry] = []) {
        self.version = version
        self.hashes = hashes
        self.entries = entries
    }

    /// Returns a changed copy.
    package func with(_ change: (inout MeteorBundleBuilder) -> Void) -> MeteorBundleBuilder {
        var changed = self
        change(&changed)
        return changed
    }

    /// Reads every file once and creates the manifest and the page.
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
    /// Returns the digest of the entries in order and of the public settings, in lower-case hexadecimal.
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
    /// Returns the digest of a platform version and of plugins with their versions, in lower-case hexadecimal.
    package static func text(platform: String, plugins: [String: String]) throws -> String {
        try SHA1.hex(of: platform + plugins.sorted { $0.key < $1.key }.map { $0.key + $0.value }.joined())
    }
}
