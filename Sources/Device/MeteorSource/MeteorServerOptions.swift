public import BundleValues

/// The settings for a Meteor server.
public struct MeteorServerOptions: Sendable {
    /// The URL of the application, including its path.
    public var rootURL: FetchURL
    /// The platform whose compatibility version applies.
    public var platform: MeteorPlatform
    /// The application ID; nil to accept that of the first bundle.
    public var appId: String?
    /// Whether the device accepts files that no hash can prove.
    public var verification = VerificationMode.compatible
    /// The largest number of entries in a manifest.
    public var maximumFiles = AssetManifestLimits().entries
    /// The largest file in bytes.
    public var maximumFileBytes = 256 << 20
    /// The number of parallel downloads.
    public var downloads = 6
    /// The architecture of the client.
    public var architecture = "web.cordova"

    /// Creates the settings with default limits.
    public init(rootURL: FetchURL, platform: MeteorPlatform) {
        self.rootURL = rootURL
        self.platform = platform
    }

    var limits: AssetManifestLimits {
        var limits = AssetManifestLimits()
        limits.entries = maximumFiles
        return limits
    }
}

/// The platform whose compatibility version a device reads from an asset manifest (METEOR section 1.2).
public enum MeteorPlatform: String, Sendable, CaseIterable {
    case ios, android
}
