/// The channel document at the edges of a CDN.
struct Edges {
    /// The number of separate caches of the CDN.
    static let count = 24
    /// The seconds for which an edge caches a document.
    private static let maximumAge = 30

    private var documents = Array(repeating: (at: -maximumAge, issue: 0), count: count)

    /// Returns the document that an edge sends, which may be older than `newest`.
    mutating func document(_ edge: Int, newest: Int, at now: Int) -> Int {
        if now - documents[edge].at >= Self.maximumAge { documents[edge] = (now, newest) }
        return documents[edge].issue
    }
}
