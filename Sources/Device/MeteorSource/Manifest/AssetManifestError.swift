package import BundleValues

/// The reason why bytes are not the asset manifest of a Meteor client (METEOR section 1.10).
package enum AssetManifestError: Error, Sendable, Equatable {
    /// The identifier in every message, for statistics.
    package static let word = "invalidAssetManifest"

    case tooLarge(bytes: Int, limit: Int)
    case tooManyEntries(limit: Int)
    /// The files or URLs are in more folders than the device allows.
    case tooManyFolders(limit: Int)
    /// The document is an HTML page.
    case page
    /// The document is not JSON.
    case unreadable(JSONError)
    /// The document is not a JSON object.
    case notAnObject
    /// The document has another format.
    case incompatibleFormat(String)
    case noVersion
    /// The version is invalid.
    case version(MeteorVersionError)
    /// The compatibility version for this platform is missing.
    case noCompatibility(MeteorPlatform)
    /// A member such as `manifest[17].path` is missing or invalid.
    case member(String, problem: String)
}

extension AssetManifestError: CustomStringConvertible {
    /// The problem in one clause.
    package var description: String {
        switch self {
        case .tooLarge(let bytes, let limit):
            "the asset manifest has \(ByteCount(bytes: bytes)); at most \(ByteCount(bytes: limit)) are read"
        case .tooManyEntries(let limit): "the asset manifest has more than \(limit) entries"
        case .tooManyFolders(let limit): "the asset manifest has more than \(limit) folders"
        case .page: "Error parsing asset manifest: the server answered with an HTML page"
        case .unreadable(let error): "Error parsing asset manifest: \(error)"
        case .notAnObject: "Error parsing asset manifest: it is not a JSON object"
        case .incompatibleFormat(let format):
            "the asset manifest has the incompatible format \"\(UntrustedName.display(format))\", not "
                + "\"\(AssetManifest.format)\""
        case .noVersion: "the asset manifest does not have a version"
        case .version(let error): "the asset manifest does not have a version that can be used: \(error)"
        case .noCompatibility(let platform):
            "the asset manifest does not have a cordovaCompatibilityVersion for \(platform.rawValue)"
        case .member(let member, let problem): "in the asset manifest, \(member) \(problem)"
        }
    }

    /// The remedy.
    private var advice: String {
        switch self {
        case .tooLarge, .tooManyEntries, .tooManyFolders: "Raise the limit if the client is meant to be that large."
        case .page:
            "Try again in a moment if the server is restarting, log in to the network if it has a captive portal, "
                + "or add the mobile platform to the build (meteor add-platform)."
        case .noCompatibility(let platform): "Build the server with the platform \(platform.rawValue)."
        case .incompatibleFormat: "This version does not support the Meteor release of the server."
        case .unreadable, .notAnObject, .noVersion, .version, .member:
            "Check the address; if it is right, build the Meteor application again."
        }
    }
}

extension AssetManifestError: ClassifiedFailure {
    /// The code is always `manifestMalformed`.
    package var failure: UpdateFailure {
        UpdateFailure(
            .manifestMalformed, subject: subject, "This manifest is refused (\(Self.word)): \(description). \(advice)")
    }

    private var subject: String {
        switch self {
        case .member(let member, _): member
        case .noVersion, .version: "version"
        case .noCompatibility(let platform): "cordovaCompatibilityVersions.\(platform.rawValue)"
        case .incompatibleFormat: "format"
        case .tooLarge, .tooManyEntries, .tooManyFolders, .page, .unreadable, .notAnObject: "manifest"
        }
    }
}
