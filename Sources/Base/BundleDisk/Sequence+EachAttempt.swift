extension Sequence {
    /// Calls `body` for each element, also after a failure. Then throws the first failure.
    package func attemptEach(_ body: (Element) throws -> Void) throws {
        var first: (any Error)?
        for element in self {
            do { try body(element) } catch { first = first ?? error }
        }
        if let first { throw first }
    }
}
