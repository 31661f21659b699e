extension Int {
    /// Returns the sum of two counts, at most the largest JSON integer. Neither may be negative.
    package func adding(count: Int) -> Int {
        let (sum, overflows) = addingReportingOverflow(count)
        return overflows ? JSONValue.maximumInteger : Swift.min(sum, JSONValue.maximumInteger)
    }
}
