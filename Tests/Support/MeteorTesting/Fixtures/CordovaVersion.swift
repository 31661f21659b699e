/// The versions that the Cordova plugin's suite downloads (METEOR section 8.2).
package enum CordovaVersion: String, Sendable, CaseIterable {
    /// What the seed holds.
    case version1
    /// The next version.
    case version2
    /// The one after it.
    case version3
    /// version2 without the file of `app/template.mobileapp.js`.
    case missingAsset = "version2_with_missing_asset"
    /// version2 with version3's bytes in that file.
    case invalidAsset = "version2_with_invalid_asset"
    /// version2 whose page says version3.
    case versionMismatch = "version2_with_version_mismatch"
    /// A page without ROOT_URL.
    case missingRootURL = "missing_root_url"
    /// A page that moves to 127.0.0.1.
    case loopbackRootURL = "127.0.0.1_root_url"
    /// A page that moves to another port of localhost.
    case wrongRootURL = "wrong_root_url"
    /// A page without appId.
    case missingAppId = "missing_app_id"
    /// A page of another app.
    case wrongAppId = "wrong_app_id"
    /// version1 without `cordovaCompatibilityVersions`.
    case missingCompatibility = "missing_cordova_compatibility_version"
    /// version1 for another shell.
    case differentCompatibility = "different_cordova_compatibility_version"

    /// The `version` in its manifest.
    package var version: String {
        switch self {
        case .missingAsset, .invalidAsset, .versionMismatch: Self.version2.rawValue
        default: rawValue
        }
    }
}
