import BundleValues

/// The exit statuses that `clientctl help exit-statuses` lists.
enum ExitTable {
    /// The arguments that print the table.
    static let arguments = ["help", "exit-statuses"]

    /// `check` found nothing to do, `install` found no release for a device without a client, `rollback` found no earlier client,
    /// `activate` found no client that is ready or no verdict in time, or `fleet guard` is waiting.
    static let nothingToDo: Int32 = 3
    /// This run or an earlier one of `fleet guard` stopped the rollout.
    static let stopped: Int32 = 60
    /// The server of the statistics has no data from devices.
    static let noData: Int32 = 61
    /// `doctor` found a failure.
    static let doctorFailed: Int32 = 62
    /// `fleet list --silent` found a device.
    static let silent: Int32 = 63

    /// The meaning and the remedy of the failure code in `clientctl help CODE`; nil for other arguments.
    static func explanation(of arguments: [String]) -> [String]? {
        guard arguments.count == 2, arguments[0] == "help", let code = FailureCode(rawValue: arguments[1]) else {
            return nil
        }
        return ["\(code.rawValue) (exit status \(code.exitStatus)): \(code.words)", code.remedy]
    }

    static var lines: [String] {
        var codes: [Int32: [String]] = [
            0: ["success, or nothing to change"],
            nothingToDo: [
                "check, install, rollback: nothing for this device", "activate: nothing ready, or no verdict in time",
                "fleet guard: waiting",
            ],
            stopped: ["fleet guard: stopped"], noData: ["fleet guard, insights: no data"],
            doctorFailed: ["doctor: found a failure"], silent: ["fleet list: found a silent device"],
        ]
        for code in FailureCode.allCases { codes[code.exitStatus, default: []].append(code.rawValue) }
        return codes.sorted { $0.key < $1.key }.map { status, words in
            "\(status < 10 ? "   " : "  ")\(status)  \(words.joined(separator: ", "))"
        }
    }
}
