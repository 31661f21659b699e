package import BundleValues

/// The reason why a downloaded index page is rejected (METEOR section 2.3).
package enum PageRefusal: Error, Sendable, Equatable {
    /// The runtime configuration is missing or invalid.
    case noRuntimeConfig(String)
    /// The page belongs to another version than the manifest. The server may have changed in between.
    case versionMismatch(expected: MeteorVersion, actual: String)
    /// `ROOT_URL` is missing or not an http or https URL.
    case noRootURL
    /// The page would direct the device from its server to localhost.
    case rootURLBecomesLocalhost
    case noAppId
    /// The page belongs to another application.
    case appIdMismatch(expected: String, actual: String)
}

extension PageRefusal: CustomStringConvertible {
    /// The problem in one clause.
    package var description: String {
        switch self {
        case .noRuntimeConfig(let reason): "Couldn't load runtime config from index file: \(reason)"
        case .versionMismatch(let expected, let actual):
            "Version mismatch for index page, expected: \(expected), actual: \(UntrustedName.display(actual))"
        case .noRootURL: "Could not find ROOT_URL in the downloaded bundle"
        case .rootURLBecomesLocalhost: "the downloaded bundle would change current ROOT_URL to localhost"
        case .noAppId: "Could not find appId in the downloaded bundle"
        case .appIdMismatch(let expected, let actual):
            "the appId \"\(UntrustedName.display(actual))\" of the downloaded bundle does not match current appId "
                + "\"\(UntrustedName.display(expected))\""
        }
    }

    private var advice: String {
        switch self {
        case .noRuntimeConfig: "Check the address: this page is not that of a Meteor application."
        case .versionMismatch: "The server may have changed during the download; try again."
        case .noRootURL, .rootURLBecomesLocalhost:
            "Set ROOT_URL or MOBILE_ROOT_URL of the server to its public address."
        case .noAppId, .appIdMismatch: "Check the address: it must be that of the application that is installed."
        }
    }
}

extension PageRefusal: ClassifiedFailure {
    /// The code is `versionMismatch` for a page of another version, otherwise `unsuitableBundle`.
    package var failure: UpdateFailure {
        switch self {
        case .versionMismatch:
            UpdateFailure(.versionMismatch, subject: BundlePath.index.string, "\(description). \(advice)")
        default:
            UpdateFailure(
                .unsuitableBundle, subject: BundlePath.index.string,
                "The index page is refused: \(description). \(advice)")
        }
    }
}
