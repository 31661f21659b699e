import BundleValues
import BundleCore
import BundleTesting
import Glibc
import MeteorTesting
import Testing

extension PushedDevice {
    /// Creates a device of the Capacitor plugin's suite (METEOR section 8.5). Its shell has `seed`, by default
    /// `v-initial` without assets. Its server has that version and `versions`, and serves the last one.
    static func capacitor(seed: MeteorBundle? = nil, _ versions: MeteorBundle...) throws -> PushedDevice {
        let folder = try TemporaryFolder()
        let seed = try seed ?? .capacitor("v-initial")
        try seed.writeBundleLayout(to: folder.file("seed"))
        for bundle in [seed] + versions { try bundle.writeServerLayout(to: folder.file("versions/\(bundle.version)")) }
        let device = try PushedDevice(folder, seed: folder.file("seed"), versions: [folder.file("versions")])
        try device.server.serve(version: (versions.last ?? seed).version)
        return device
    }

    /// Serves `version`, installs it, and confirms its start.
    func follow(_ version: String, keep: Int = 3) async throws {
        try server.serve(version: version)
        try await update(keep: keep)
        try reload()
        try await confirm(keep: keep)
    }

    /// Returns a file of an installed version, or nil if it does not exist.
    func stored(_ path: String, of version: String) -> [UInt8]? {
        try? contents(ofFile: "\(store)/meteor/\(version)/\(path)")
    }

    /// Waits until the journal of the running attempt lists an asset as complete.
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

    /// Expects that an update had no effect: the store has no bundle, and the page is that of the seed.
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
    /// Returns a bundle of the Capacitor plugin's suite with these files, for both platforms.
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

/// Returns the requests of one update: the manifest, the page, and each URL path once, with the query of assets.
func expectedRequests(_ assets: String..., manifest: Int = 1, page: Int = 1) -> [String: Int] {
    var requests = ["/__cordova/manifest.json": manifest, "/__cordova/": page].filter { $0.value > 0 }
    for asset in assets { requests["/__cordova\(asset)?meteor_dont_serve_index=true", default: 0] += 1 }
    return requests
}
