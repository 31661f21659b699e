import ArgumentParser
import BundleValues

/// Suggests a flag of the command for an unknown one. The parser suggests any flag with some similar letters, such as `--every` for `--key`
/// and `--json` for `--to`.
enum SimilarFlag {
    /// Names that people give to the public key of a release, which devices have in `--trust`.
    private static let publisherKeys: Set = ["key", "public-key", "release-key"]

    /// Returns `text`, a message of the parser about `arguments`, with another suggestion: a flag that ends with the unknown name, a similar
    /// flag, or the help.
    static func correct(_ text: String, of arguments: [String]) -> String {
        guard let start = text.firstRange(of: "Unknown option '--"),
            let (command, words) = CommandName.command(arguments).map({ ($0.command, arguments.prefix($0.words)) })
        else {
            return text
        }
        let name = text[start.upperBound...].prefix { $0 != "'" }
        let flags = FlagNames.flags(of: command.init()).sorted()
        let better =
            publisherKeys.contains(String(name)) && flags.contains("trust") && !flags.contains("channel-key")
            ? "trust"
            : flags.first { $0.hasSuffix("-\(name)") && !SimilarWord.isOpposite($0, of: String(name)) }
                ?? FlagNames.similar(to: String(name), in: flags)
        var rest = text[name.endIndex...].dropFirst()
        if rest.hasPrefix(". Did you mean '--"), let end = rest.firstRange(of: "'?") { rest = rest[end.upperBound...] }
        let advice =
            better.map { "Did you mean '--\($0)'?" }
            ?? "`clientctl \(words.joined(separator: " ")) --help` lists the options."
        return "\(text[..<name.endIndex])'. \(advice)\(rest)"
    }
}
