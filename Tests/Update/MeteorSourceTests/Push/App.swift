import BundleTesting
import Glibc
import MeteorSource
import MeteorTesting

/// Small applications for tests.
enum App {
    static let rootURL = "http://localhost:3000/"

    /// A bundle with modern hashes unless stated.
    static func bundle(_ version: String, _ entries: [BundleEntry], hashes: HashScheme = .modern) -> MeteorBundleBuilder
    {
        MeteorBundleBuilder(.stated(version), hashes: hashes, entries)
    }

    /// A script whose URL has a cache buster, as in development.
    static func script(_ name: String, _ text: String) -> BundleEntry {
        BundleEntry("app/\(name)", url: "/app/\(name)?hash={hash}", type: "js", .text(text))
    }

    /// A file of the `public` folder.
    static func asset(_ name: String, _ text: String) -> BundleEntry {
        BundleEntry("app/\(name)", url: "/\(name)", .text(text))
    }
}

/// How often each path was asked for, as the log of a server has it.
enum Requests {
    /// Paths below the prefix; the manifest and the page come as they are, everything else with the flag.
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
    /// A device whose shell brings `seed`, and a server that has nothing yet.
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

    /// Makes the server serve `builder` from now on, under a name of the test's choice; its requests are counted anew.
    @discardableResult
    func deploy(
        _ builder: MeteorBundleBuilder, as name: String? = nil, in parent: TemporaryFolder? = nil
    ) throws -> MeteorBundle {
        let bundle = try publish(builder, as: name, in: parent)
        try server.serve(version: name ?? bundle.version)
        return bundle
    }

    /// Gives the server a version that it does not serve yet.
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

    /// Downloads what is served, shows it, and confirms its start.
    func activate(keep: Int = 3) async throws {
        try await update(keep: keep)
        try reload()
        try await confirm(keep: keep)
    }
}
