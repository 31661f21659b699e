import BundleValues
import Testing

@Suite("ShellRange") struct ShellRangeTests {
    @Test(
        arguments: [
            ("1.0.0", nil, "1.0.0", "compatible"), ("1.0.0", nil, "99.0.0", "compatible"),
            ("1.0.0", nil, "0.9.9", "old"), ("1.0.0", nil, "1.0.0-rc.1", "old"),
            ("1.0.0", "2.0.0", "1.0.0", "compatible"), ("1.0.0", "2.0.0", "2.0.0", "compatible"),
            ("1.0.0", "2.0.0", "2.0.0-rc.1", "compatible"), ("1.0.0", "2.0.0", "2.0.1", "new"),
            ("1.0.0", "2.0.0", "2.0.1-0", "new"), ("1.0.0", "2.0.0", "10.0.0", "new"),
            ("1.0.0", "1.0.0", "1.0.0", "compatible"),
            ("1.0.0", "1.0.0", "0.0.1", "old"),
        ] as [(String, String?, String, String)])
    func `includes both ends`(minimum: String, maximum: String?, shell: String, wanted: String) throws {
        let minimum = try SemanticVersion(parsing: minimum)
        let maximum = try maximum.map { try SemanticVersion(parsing: $0) }
        let answer = try ShellRange(minimum: minimum, maximum: maximum).compatibility(
            with: SemanticVersion(parsing: shell))
        switch wanted {
        case "old": #expect(answer == .shellTooOld(minimum: minimum))
        case "new": #expect(answer == .shellTooNew(maximum: try #require(maximum)))
        default: #expect(answer == .compatible)
        }
    }

    @Test func `describes the required shell`() throws {
        let version = try SemanticVersion(parsing: "2.0.0")
        #expect("\(ShellCompatibility.shellTooOld(minimum: version))" == "needs shell 2.0.0 or newer")
        #expect("\(ShellCompatibility.shellTooNew(maximum: version))" == "is for shells up to 2.0.0")
        #expect("\(ShellCompatibility.compatible)" == "runs in this shell")
    }

    @Test func `rejects a maximum below the minimum`() throws {
        let low = try SemanticVersion(parsing: "1.0.0-rc.1")
        let high = try SemanticVersion(parsing: "1.0.0")
        let error = #expect(throws: ShellRangeError.self) { try ShellRange(minimum: high, maximum: low) }
        #expect(error == .maximumBelowMinimum(minimum: high, maximum: low))
        #expect(error?.description.contains("1.0.0-rc.1 is older than the oldest shell 1.0.0") == true)
    }
}
