import BundleValues

/// The flags on the command line, without those that the environment and the configuration file add.
enum CommandLineFlags {
    private static let words = Array(CommandLine.arguments.dropFirst().prefix { $0 != "--" })

    static func contain(_ name: String) -> Bool { words.contains { $0 == "--\(name)" || $0.hasPrefix("--\(name)=") } }

    static func containAny(of names: String...) -> Bool { names.contains(where: contain) }

    /// Returns the value of the flag `name`; nil without the flag.
    static func value(of name: String) -> String? {
        if let index = words.firstIndex(of: "--\(name)") { return words[(index + 1)...].first }
        return words.lazy.compactMap { $0.dropping(prefix: "--\(name)=") }.first
    }
}
