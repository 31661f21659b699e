package import BundleValues

/// Decides whether a downloaded index page can replace that of the installed application (METEOR section 2.3).
package enum PageCheck {
    /// The known application of the device.
    package struct KnownApplication: Sendable, Equatable {
        /// The application ID; nil if it is unknown, as before the first installation without a seed.
        package var appId: String?
        /// The URL of the application's server; nil if it is unknown.
        package var rootURL: FetchURL?

        package init(appId: String? = nil, rootURL: FetchURL? = nil) {
            self.appId = appId
            self.rootURL = rootURL
        }
    }

    /// The values of an accepted page.
    package struct Accepted: Sendable, Equatable {
        package let rootURL: FetchURL
        package let appId: String
    }

    /// Throws the first problem of the page, in the order of the specification.
    package static func check(
        _ config: RuntimeConfig, version: MeteorVersion, stored: KnownApplication
    ) throws(PageRefusal) -> Accepted {
        if let actual = config.pageVersion, !actual.utf8.elementsEqual(version.description.utf8) {
            throw .versionMismatch(expected: version, actual: actual)
        }
        guard let rootURL = config.parsedRootURL else { throw .noRootURL }
        // Meteor treats an unknown server like a host other than localhost. This check accepts the page instead: there is
        // no server to leave, and the first installation can be from a server on this machine.
        if let current = stored.rootURL, isLocalhost(rootURL), !isLocalhost(current) { throw .rootURLBecomesLocalhost }
        guard let appId = config.appId else { throw .noAppId }
        if let current = stored.appId, !current.utf8.elementsEqual(appId.utf8) {
            throw .appIdMismatch(expected: current, actual: appId)
        }
        return Accepted(rootURL: rootURL, appId: appId)
    }

    private static func isLocalhost(_ url: FetchURL) -> Bool { url.origin.host == "localhost" }
}

extension RuntimeConfig {
    /// `ROOT_URL` as an http or https URL, or nil if it is not one.
    package var parsedRootURL: FetchURL? {
        guard let rootURL, let url = try? FetchURL(parsing: rootURL), !url.isFile else { return nil }
        return url
    }
}
