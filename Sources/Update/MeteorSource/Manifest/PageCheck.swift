package import BundleValues

/// Whether a downloaded index page may become that of the installed application (METEOR section 2.3).
package enum PageCheck {
    /// What the device knows of its application so far.
    package struct Stored: Sendable, Equatable {
        /// The application; nil where none is known, as on a first installation without seed.
        package var appId: String?
        /// Its server; nil where none is known.
        package var rootURL: FetchURL?

        /// States what is known.
        package init(appId: String? = nil, rootURL: FetchURL? = nil) {
            self.appId = appId
            self.rootURL = rootURL
        }
    }

    /// What an accepted page said.
    package struct Accepted: Sendable, Equatable {
        /// The application's server.
        package let rootURL: FetchURL
        /// The application.
        package let appId: String
        /// Whether the page said that it belongs to the manifest's version; otherwise it said nothing.
        package let isVersionProven: Bool
    }

    /// Throws the first reason against the page, in the order of the specification.
    package static func check(
        _ config: RuntimeConfig, version: MeteorVersion, stored: Stored
    ) throws(PageRefusal) -> Accepted {
        if let actual = config.pageVersion, !actual.utf8.elementsEqual(version.description.utf8) {
            throw .versionMismatch(expected: version, actual: actual)
        }
        guard let rootURL = config.parsedRootURL else { throw .noRootURL }
        // Upstream counts an unknown server as one that is not localhost. Here it refuses nothing: there is no server to be
        // led away from, and the first installation may be from a server on the same machine.
        if let current = stored.rootURL, isLocalhost(rootURL), !isLocalhost(current) { throw .rootURLBecomesLocalhost }
        guard let appId = config.appId else { throw .noAppId }
        if let current = stored.appId, !current.utf8.elementsEqual(appId.utf8) {
            throw .appIdMismatch(expected: current, actual: appId)
        }
        return Accepted(rootURL: rootURL, appId: appId, isVersionProven: config.pageVersion != nil)
    }

    private static func isLocalhost(_ url: FetchURL) -> Bool { url.origin.host == "localhost" }
}

extension RuntimeConfig {
    /// `ROOT_URL` as a URL of http or https; nil where it is none.
    package var parsedRootURL: FetchURL? {
        guard let rootURL, let url = try? FetchURL(parsing: rootURL), !url.isFile else { return nil }
        return url
    }
}
