import BundleValues
import BundleCore
import BundleTesting
import Glibc
import MeteorTesting
import Testing

extension PushedDevice {
    /// A device of the Capacitor plugin's suite (METEOR section 8.5): its shell brings `seed`, `v-initial` without assets unless
    /// stated, and its server has that version and `versions`, and serves the last one.
    static func capacitor(seed: MeteorBundle? = nil, _ versions: MeteorBundle...) throws -> PushedDevice {
        let folder = try TemporaryFolder()
        let seed = try seed ?? .capacitor("v-initial")
        try seed.writeBundleLayout(to: folder.file("seed"))
        for bundle in [seed] + versions { try bundle.writeServerLayout(to: folder.file("versions/\(bundle.version)")) }
        let device = try PushedDevice(folder, seed: folder.file("seed"), versions: [folder.file("versions")])
        try device.server.serve(version: (versions.last ?? seed).version)
        return device
    }

    /// Serves `version`, brings it, and shows it in a page that confirms its start.
    func follow(_ version: String, keep: Int = 3) async throws {
        try server.serve(version: version)
        try await update(keep: keep)
        try reload()
        try await confirm(keep: keep)
    }

    /// The file at `path` of a version in the store; nil where it is not there.
    func stored(_ path: String, of version: String) -> [UInt8]? {
        try? contents(ofFile: "\(store)/meteor/\(version)/\(path)")
    }

    /// Waits until the running attempt has noted in its journal that the asset at `urlPath` is complete.
    func completed(_ urlPath: String) async throws {
        while true {
            let files = (try? TreeSnapshot(of: "\(store)/staging").files) ?? [:]
            for (_, bytes) in files {
                let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
                if lines.contains(where: { $0.hasPrefix("complete\t") && $0.contains("\t\(urlPath) ") }) { return }
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Expects that nothing came of an update: the store has no bundle, and the page is the seed's.
    func expectNothingCame(sourceLocation: SourceLocation = #_sourceLocation) throws {
        let inventory = try inventory()
        #expect(inventory.bundles.isEmpty, sourceLocation: sourceLocation)
        #expect(inventory.ledger.pending == nil, sourceLocation: sourceLocation)
        #expect(try versionsOnDisk() == [], sourceLocation: sourceLocation)
        #expect(try TreeSnapshot(of: "\(store)/staging").paths == [], sourceLocation: sourceLocation)
        #expect(try reload().name == .embedded, sourceLocation: sourceLocation)
        #expect(try pageVersion() == "v-initial", sourceLocation: sourceLocation)
    }
}

extension MeteorBundle {
    /// A bundle of the Capacitor plugin's suite with these files and their texts, for both platforms.
    static func capacitor(
        _ version: String, _ files: KeyValuePairs<String, String> = [:],
        change: (inout MeteorBundleBuilder) -> Void = { _ in }
    ) throws -> MeteorBundle {
        var builder = CapacitorBundles.bundle(
            version,
            files.map { CapacitorBundles.asset($0.key, type: $0.key.hasSuffix(".css") ? "css" : "js", $0.value) })
        builder.compatibility = ["ios": .string("ios-1"), "android": .string("android-1")]
        change(&builder)
        return try builder.build()
    }
}

/// The requests of one update: the manifest, the page, and each of these URL paths once, with the query that assets have.
func asked(_ assets: String..., manifest: Int = 1, page: Int = 1) -> [String: Int] {
    var requests = ["/__cordova/manifest.json": manifest, "/__cordova/": page].filter { $0.value > 0 }
    for asset in assets { requests["/__cordova\(asset)?meteor_dont_serve_index=true", default: 0] += 1 }
    return requests
}
