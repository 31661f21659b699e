public import BundleValues

/// A Meteor server that pushes code, and how its word is taken.
public struct MeteorServerOptions: Sendable {
    /// The application's address, sub-path included.
    public var rootURL: FetchURL
    /// Whose compatibility version counts.
    public var platform: MeteorPlatform
    /// The application, in Meteor's words; nil for whatever the first bundle says.
    public var appId: String?
    /// Whether files that no hash can prove are taken.
    public var verification = VerificationMode.compatible
    /// The most entries of a manifest.
    public var maximumFiles = AssetManifestLimits().entries
    /// The largest file that is downloaded.
    public var maximumFileBytes = 256 << 20
    /// Downloads at once.
    public var downloads = 6
    /// The client that is asked for, in Meteor's words.
    public var architecture = "web.cordova"

    /// A server with the usual limits.
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

/// Whose compatibility version a device reads out of an asset manifest (METEOR section 1.2).
public enum MeteorPlatform: String, Sendable, CaseIterable {
    case ios, android
}
