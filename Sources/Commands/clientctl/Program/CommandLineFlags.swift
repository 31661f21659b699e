import BundleValues

/// The flags on the command line, without those that the environment and the configuration file add.
enum CommandLineFlags {
    private static let words = Array(CommandLine.arguments.dropFirst().prefix { $0 != "--" })

    /// The flags with a name of one letter.
    private static let short = ["quiet": "-q", "verbose": "-v"]

    static func contain(_ name: String) -> Bool {
        words.contains { $0 == "--\(name)" || $0.hasPrefix("--\(name)=") || $0 == short[name] }
    }

    static func containAny(of names: String...) -> Bool { names.contains(where: contain) }

    /// Returns the value of the flag `name`; nil without the flag.
    static func value(of name: String) -> String? {
        if let index = words.firstIndex(of: "--\(name)") { return words[(index + 1)...].first }
        return words.lazy.compactMap { $0.dropping(prefix: "--\(name)=") }.first
    }
}
