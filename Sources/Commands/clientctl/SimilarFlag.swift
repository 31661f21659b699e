import ArgumentParser

/// The flag that a user may have meant by one that the command does not have. The parser proposes the flag with the most similar letters, so
/// it proposes `--every` for `--key`.
enum SimilarFlag {
    /// Returns `text`, a message of the parser about `arguments`, with the flag that ends with the words of the unknown one.
    static func correct(_ text: String, of arguments: [String]) -> String {
        guard let start = text.firstRange(of: "Unknown option '--"), let command = CommandName.command(arguments) else {
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
