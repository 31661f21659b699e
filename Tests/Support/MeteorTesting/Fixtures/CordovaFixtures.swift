/// The fixtures of the Cordova plugin's suite, generated into a folder (METEOR section 8.2).
package struct CordovaFixtures: Sendable {
    /// The seed: version1 in the bundle layout.
    package let seed: String
    /// The folder with one folder per version, in the server layout.
    package let versions: String
    /// The rest of a stopped download of version2 in the bundle layout: the manifest, the page and two files.
    package let partialVersion2: String

    private let bundles: [CordovaVersion: MeteorBundle]

    /// Writes the fixtures into `folder`. `port` is that of the server in ROOT_URL.
    package init(in folder: String, port: Int = 3000) throws {
        seed = "\(folder)/seed"
        versions = "\(folder)/versions"
        partialVersion2 = "\(folder)/partial-version2"
        var bundles: [CordovaVersion: MeteorBundle] = [:]
        for version in CordovaVersion.allCases {
            bundles[version] = try CordovaBundles.bundle(version, port: port).build()
        }
        self.bundles = bundles
        try CordovaBundles.seed(port: port).build().writeBundleLayout(to: seed)
        for version in CordovaVersion.allCases { try served(version).writeServerLayout(to: self.folder(of: version)) }
        let finished = ["app/some-file", "app/some-other-file"]
        try bundle(.version2).keeping { finished.contains($0.path) }.writeBundleLayout(to: partialVersion2)
    }

    /// Returns the folder that a server serves for a version.
    package func folder(of version: CordovaVersion) -> String { "\(versions)/\(version.rawValue)" }

    package func bundle(_ version: CordovaVersion) throws -> MeteorBundle {
        guard let bundle = bundles[version] else {
            throw BundleFolderError(message: "there is no fixture \(version.rawValue)")
        }
        return bundle
    }

    /// Returns the `hash` of an entry; empty for a path that is not listed.
    package func hash(of path: String, in version: CordovaVersion) -> String {
        bundles[version]?.entry(path)?.hash ?? ""
    }

    /// Returns the URL path of a source map without its query; empty for an entry without one.
    package func sourceMapURL(of path: String, in version: CordovaVersion) -> String {
        bundles[version]?.entry(path)?.sourceMapURL ?? ""
    }

    /// Returns the bytes that a client of the version must serve at a path of the bundle; empty for a path that is not
    /// listed.
    package func content(of path: String, in version: CordovaVersion) throws -> [UInt8] {
        try bundles[version]?.files.first { $0.path == path }?.content.read() ?? []
    }

    private func served(_ version: CordovaVersion) throws -> MeteorBundle {
        let template = "app/template.mobileapp.js"
        let bundle = try bundle(version)
        switch version {
        case .missingAsset: return bundle.keeping { $0.path != template }
        case .invalidAsset:
            let other = CordovaBundles.template(.version3)
            return bundle.keeping { $0.path != template }.adding(template, .text(other))
        default: return bundle
        }
    }
}

extension MeteorBundle {
    /// Returns the same manifest and page with fewer files.
    package func keeping(_ isKept: (File) -> Bool) -> MeteorBundle {
        var changed = self
        changed.files.removeAll { !isKept($0) }
        return changed
    }

    /// Returns the same manifest and page with one more file at the same path in both layouts.
    package func adding(_ path: String, _ content: BundleContent) -> MeteorBundle {
        var changed = self
        changed.files.append(File(path: path, urlPath: path, content: content))
        return changed
    }
}
