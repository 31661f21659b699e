/// A client's index page, cut where the host puts its own elements into the head.
public struct IndexPage: Sendable, Equatable {
    /// The bytes before the cut.
    public let before: [UInt8]
    /// The bytes after it.
    public let after: [UInt8]
    /// A source expression of Content Security Policy for each inline script of the page: `'sha256-…'`.
    public let scriptSources: [String]

    /// States a page; `before` and `after` together are the whole of it.
    public init(before: [UInt8], after: [UInt8], scriptSources: [String]) {
        self.before = before
        self.after = after
        self.scriptSources = scriptSources
    }
}
