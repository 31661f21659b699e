package import Testing

/// Waits until `condition` holds. Records an issue after a minute.
package func eventually(
    _ condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
        if condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    Issue.record("The condition did not hold within a minute.", sourceLocation: sourceLocation)
}
