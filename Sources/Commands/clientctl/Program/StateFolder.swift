import CLibrary

/// The folder in which this program stores facts about the publishers of this machine.
enum StateFolder {
    /// The path by the XDG Base Directory Specification; nil if the environment names neither it nor a home folder.
    static var path: String? { HomeFolder.path("XDG_STATE_HOME", else: ".local/state").map { "\($0)/clientctl" } }
}

/// The folders of the user of this machine, by the XDG Base Directory Specification.
enum HomeFolder {
    /// Returns the folder that the variable `name` names, or `standard` in the home folder; nil without either. A relative path is
    /// ignored: it would be a folder of whatever repository is the working folder.
    static func path(_ name: String, else standard: String) -> String? {
        variable(name) ?? variable("HOME").map { "\($0)/\(standard)" }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
    }
}
