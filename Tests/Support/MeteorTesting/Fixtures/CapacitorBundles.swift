import BundleValues

/// The bundles of the Capacitor plugin's suite (METEOR section 8.5): small, hashed by their bytes, without format and
/// sizes.
package enum CapacitorBundles {
    /// The appId of every page.
    package static let appId = "test-app-id"
    /// The ROOT_URL of every page.
    package static let rootURL = "http://mock.test"

    package static func bundle(_ version: String, _ entries: [BundleEntry] = []) -> MeteorBundleBuilder {
        var builder = MeteorBundleBuilder(.stated(version), hashes: .bytes, entries)
        for index in builder.entries.indices { builder.entries[index].statesSize = false }
        builder.format = nil
        builder.compatibility = ["ios": .string("ios-1")]
        builder.page.versionStyle = .autoupdateVersionCordova
        builder.page.rootURL = rootURL
        builder.page.appId = appId
        return builder
    }

    /// Returns a cacheable file at `/path`.
    package static func asset(_ path: String, type: String = "js", _ text: String) -> BundleEntry {
        BundleEntry(path, type: type, isCacheable: true, .text(text))
    }
}
