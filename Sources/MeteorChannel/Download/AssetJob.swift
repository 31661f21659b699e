public import BundleCore

/// One file to bring.
public struct AssetJob: Sendable {
    /// Where it comes from.
    public let url: FetchURL
    /// For messages: the URL path, `/app/app.js`.
    public let name: String
    /// Where it goes in the tree. No two jobs of a run have the same.
    public let file: BundlePath
    /// What tells the wanted content from all other, across attempts and versions.
    public let key: String
    /// The most bytes it may have.
    public let maximumBytes: Int
    /// Whether the answer 404 counts as done, with nothing written: a source map.
    public let isOptional: Bool
    /// Makes the judge of one attempt.
    public let makeInspector: @Sendable () throws -> any AssetInspector

    /// Describes a file to bring.
    public init(
        url: FetchURL, name: String, file: BundlePath, key: String, maximumBytes: Int, isOptional: Bool = false,
        makeInspector: @escaping @Sendable () throws -> any AssetInspector
    ) {
        self.url = url
        self.name = name
        self.file = file
        self.key = key
        self.maximumBytes = maximumBytes
        self.isOptional = isOptional
        self.makeInspector = makeInspector
    }
}
