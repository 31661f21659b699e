import BundleFormats
package import BundleValues

/// The expected route of a release before its download.
package struct PlannedRoute: Sendable, Equatable {
    package let route: DownloadRoute
    /// The size of the delta or the archive in bytes; nil if unknown.
    package let bytes: Int?

    package init(_ route: DownloadRoute, bytes: Int?) {
        self.route = route
        self.bytes = bytes
    }
}

/// A client whose folder has its final name and whose entry is in the ledger.
package struct InstalledBundle: Sendable, Equatable {
    package let entry: Ledger.Entry
    /// The path of the client's folder, relative if the store was opened by a relative path.
    package let path: String

    package var version: ClientVersion { entry.version }

    package var name: ClientName { .installed(entry.version) }
}
