import CLibrary

/// The folder in which this program stores facts about the publishers of this machine.
enum StateFolder {
    /// The path by the XDG Base Directory Specification; nil if the environment names neither it nor a home folder.
    static var path: String? {
        if let state = variable("XDG_STATE_HOME") { return "\(state)/clientctl" }
        return variable("HOME").map { "\($0)/.local/state/clientctl" }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
