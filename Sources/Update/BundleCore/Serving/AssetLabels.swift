package import BundleValues

/// What a manifest says about the assets of a client, for those who serve it; by URL path without the leading slash.
package struct AssetLabels: Sendable, Equatable {
    /// What is said about one asset.
    package struct Label: Sendable, Equatable {
        /// The name of its content, which changes with every byte; nil where the manifest has none. Legal in an entity tag.
        package let hash: String?
        /// Whether a URL that names the content may be kept for ever.
        package let isCacheable: Bool
        /// The URL path of its source map, with a leading slash.
        package let sourceMapURL: String?

        /// States a label.
        package init(hash: String?, isCacheable: Bool, sourceMapURL: String?) {
            self.hash = hash
            self.isCacheable = isCacheable
            self.sourceMapURL = sourceMapURL
        }
    }

    private let labels: [BundlePath: Label]

    /// Labels by URL path.
    package init(_ labels: [BundlePath: Label]) { self.labels = labels }

    /// What is said about the asset at a URL path; nil for one that the manifest does not list.
    package subscript(_ urlPath: BundlePath) -> Label? { labels[urlPath] }

    /// Nothing is said about anything.
    package static let none = AssetLabels([:])
}
