import ArgumentParser

/// Suggests a flag of the command for an unknown one. The parser suggests the flag with the most similar letters, such as `--every` for
/// `--key`.
enum SimilarFlag {
    /// Returns `text`, a message of the parser about `arguments`. If a flag ends with the unknown name, `text` suggests that flag.
    static func correct(_ text: String, of arguments: [String]) -> String {
        guard let start = text.firstRange(of: "Unknown option '--"), let (command, _) = CommandName.command(arguments)
        else {
            return text
        }
        let name = text[start.upperBound...].prefix { $0 != "'" }
        guard let better = FlagNames.flags(of: command.init()).sorted().first(where: { $0.hasSuffix("-\(name)") })
        else {
            return text
        }
        var rest = text[name.endIndex...].dropFirst()
        if rest.hasPrefix(". Did you mean '"), let end = rest.firstRange(of: "'?") { rest = rest[end.upperBound...] }
        return text[..<name.endIndex] + "'. Did you mean '--\(better)'?" + rest
    }
}
