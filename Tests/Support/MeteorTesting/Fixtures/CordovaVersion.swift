/// The versions that the Cordova plugin's suite downloads (METEOR section 8.2).
package enum CordovaVersion: String, Sendable, CaseIterable {
    /// The version of the seed.
    case version1
    case version2
    case version3
    /// version2 without the file of `app/template.mobileapp.js`.
    case missingAsset = "version2_with_missing_asset"
    /// version2 with version3's bytes in that file.
    case invalidAsset = "version2_with_invalid_asset"
    /// version2 with a page of version3.
    case versionMismatch = "version2_with_version_mismatch"
    /// A page without ROOT_URL.
    case missingRootURL = "missing_root_url"
    /// A page with another host in ROOT_URL, 127.0.0.1.
    case loopbackRootURL = "127.0.0.1_root_url"
    /// A page with another port of localhost in ROOT_URL.
    case wrongRootURL = "wrong_root_url"
    /// A page without appId.
    case missingAppId = "missing_app_id"
    /// A page of another application.
    case wrongAppId = "wrong_app_id"
    /// version1 without `cordovaCompatibilityVersions`.
    case missingCompatibility = "missing_cordova_compatibility_version"
    /// version1 for another shell.
    case differentCompatibility = "different_cordova_compatibility_version"

    /// The `version` in the manifest.
    package var version: String {
        switch self {
        case .missingAsset, .invalidAsset, .versionMismatch: Self.version2.rawValue
        default: rawValue
        }
    }
}
