import BundleValues

/// The exit statuses, as help shows them.
enum ExitTable {
    /// `check` found nothing to do, `rollback` nowhere to go back to, or a guarded rollout waits; or nothing is for a device yet
    /// that has no client.
    static let nothingToDo: Int32 = 3
    /// A guarded rollout is stopped; by this run, or before.
    static let stopped: Int32 = 60
    /// Nobody counts what devices report.
    static let noData: Int32 = 61
    /// `doctor` has found something that keeps the device from its work.
    static let unwell: Int32 = 62

    static var text: String {
        var codes: [Int32: [String]] = [
            0: ["done, or already so"],
            nothingToDo: ["check, install, rollback: nothing for this device", "release guard: waiting"],
            stopped: ["release guard: stopped"], noData: ["release guard, insights: no data"],
            unwell: ["doctor: a finding is a failure"],
        ]
        for code in FailureCode.allCases { codes[code.exitStatus, default: []].append(code.rawValue) }
        let lines = codes.sorted { $0.key < $1.key }.map { "  \($0.key)\t\($0.value.joined(separator: ", "))" }
        return "Exit status:\n" + lines.joined(separator: "\n")
    }
}
