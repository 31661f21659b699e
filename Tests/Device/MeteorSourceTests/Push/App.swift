import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting

/// Small applications for tests.
enum App {
    static let rootURL = "http://localhost:3000/"

    /// Returns a bundle, by default with modern hashes.
    static func bundle(_ version: String, _ entries: [BundleEntry], hashes: HashScheme = .modern) -> MeteorBundleBuilder
    {
        MeteorBundleBuilder(.stated(version), hashes: hashes, entries)
    }

    /// Returns a script whose URL has a cache buster, as in development.
    static func script(_ name: String, _ text: String) -> BundleEntry {
        BundleEntry("app/\(name)", url: "/app/\(name)?hash={hash}", type: "js", .text(text))
    }

    /// Returns a file of the `public` folder.
    static func asset(_ name: String, _ text: String) -> BundleEntry {
        BundleEntry("app/\(name)", url: "/\(name)", .text(text))
    }
}

/// The number of requests by path, as in the log of a server.
enum Requests {
    /// Returns paths below the prefix. All except the manifest and the page have the flag.
    static func of(_ paths: [String], below root: String = "") -> [String: Int] {
        var counts: [String: Int] = [:]
        for path in paths { counts[target(path, below: root), default: 0] += 1 }
        return counts
    }

    static func of(_ paths: String...) -> [String: Int] { of(paths) }

    private static func target(_ path: String, below root: String) -> String {
        let isPlain = path == "/" || path == "/manifest.json"
        return "\(root)/__cordova\(path)" + (isPlain ? "" : "?meteor_dont_serve_index=true")
    }
}

extension PushedDevice {
    /// Creates a device whose shell has `seed`, and a server without a version.
    static func app(
        _ seed: MeteorBundleBuilder?, tags: MeteorServer.EntityTags = .manifestHash, rootPath: String = "",
        configure: @escaping @Sendable (inout MeteorServerOptions) -> Void = { _ in }
    ) throws -> PushedDevice {
        let folder = try TemporaryFolder()
        try seed?.build().writeBundleLayout(to: folder.file("seed"))
        return try PushedDevice(
            folder, seed: seed == nil ? nil : folder.file("seed"), versions: [], tags: tags, rootPath: rootPath,
            configure: configure)
    }

    /// Serves `builder` under the given name and resets the log.
    @discardableResult
    func deploy(
        _ builder: MeteorBundleBuilder, as name: String? = nil, in parent: TemporaryFolder? = nil
    ) throws -> MeteorBundle {
        let bundle = try publish(builder, as: name, in: parent)
        try server.serve(version: name ?? bundle.version)
        return bundle
    }

    /// Adds a version to the server without serving it.
    @discardableResult
    func publish(
        _ builder: MeteorBundleBuilder, as name: String? = nil, in parent: TemporaryFolder? = nil
    ) throws -> MeteorBundle {
        let bundle = try builder.build()
        let path = (parent ?? folder).file("served-\(name ?? bundle.version)-\(server.versions.count)")
        try bundle.writeServerLayout(to: path)
        server.add(name ?? bundle.version, folder: path)
        return bundle
    }

    /// Installs the served version and confirms its start.
    func activate(keep: Int = 3) async throws {
        try await update(keep: keep)
        try reload()
        try await confirm(keep: keep)
    }
}
