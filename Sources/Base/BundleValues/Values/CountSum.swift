extension Int {
    /// The sum with `count`, or the largest integer that JSON has. Neither may be below 0.
    package func adding(count: Int) -> Int {
        let (sum, overflows) = addingReportingOverflow(count)
        return overflows ? JSONValue.maximumInteger : Swift.min(sum, JSONValue.maximumInteger)
    }
}
