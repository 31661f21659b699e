import BundleCore

/// What answers say about a file beside its type and size.
struct FileDescription {
    /// The entity tag with its quotes.
    let tag: [UInt8]
    let caching: String
    /// `caching` for a request with a query; nil where a query changes nothing.
    let cachingWithQuery: String?
    /// The path of its source map as it stands in a URL.
    let sourceMap: String?

    /// A page that is made here.
    init(pageWithTag tag: [UInt8]) { self.init(tag: tag, caching: Caching.revalidated) }

    /// A file whose place says how long it may be kept.
    init(tag: [UInt8], caching: String) {
        self.tag = tag
        self.caching = caching
        cachingWithQuery = nil
        sourceMap = nil
    }

    /// The file at `path`; `ownTag` where its label has no hash that can be a tag (METEOR section 6).
    ///
    /// A hash is the manifest's claim about bytes, which nobody here compares with it. It is a strong tag all the same: the files
    /// of a version never change below a serving root, which is one version's, and two versions whose manifests give one
    /// hash to a URL have the same bytes there: builders make another hash of every other content.
    init(_ path: [UInt8], label: AssetLabels.Label?, ownTag: [UInt8], sourceMap: String?) {
        tag = label?.hash.flatMap(EntityTag.quoting) ?? ownTag
        self.sourceMap = sourceMap
        let isCacheable = label?.isCacheable ?? false
        if isCacheable && Caching.carriesLabel(path) {
            caching = Caching.lasting
        } else if label == nil && Caching.carriesHash(RequestPath(path).lastComponent) {
            caching = Caching.immutable
        } else {
            caching = Caching.revalidated
        }
        cachingWithQuery = isCacheable && caching == Caching.revalidated ? Caching.lasting : nil
    }
}
