import BundleValues

/// The exit statuses, as help shows them.
enum ExitTable {
    /// `check` found nothing to do.
    static let nothingToDo: Int32 = 3

    static var text: String {
        var codes: [Int32: [String]] = [0: ["done, or already so"], nothingToDo: ["check: nothing to do"]]
        for code in FailureCode.allCases { codes[code.exitStatus, default: []].append(code.rawValue) }
        let lines = codes.sorted { $0.key < $1.key }.map { "  \($0.key)\t\($0.value.joined(separator: ", "))" }
        return "Exit status:\n" + lines.joined(separator: "\n")
    }
}
