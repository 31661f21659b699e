import ArgumentParser
import BundleValues

/// Suggests a flag of the command for an unknown one. The parser suggests the flag with the most similar letters, such as `--every` for
/// `--key`.
enum SimilarFlag {
    /// Returns `text`, a message of the parser about `arguments`. If a flag ends with the unknown name, `text` suggests that flag.
    static func correct(_ text: String, of arguments: [String]) -> String {
        guard let start = text.firstRange(of: "Unknown option '--"),
            let (command, words) = CommandName.command(arguments).map({ ($0.command, arguments.prefix($0.words)) })
        else {
            return text
        }
        let name = text[start.upperBound...].prefix { $0 != "'" }
        let better = FlagNames.flags(of: command.init()).sorted().first {
            $0.hasSuffix("-\(name)") && !SimilarWord.isOpposite($0, of: String(name))
        }
        var rest = text[name.endIndex...].dropFirst()
        var given: Substring?
        let lead = ". Did you mean '--"
        if rest.hasPrefix(lead), let end = rest.firstRange(of: "'?") {
            given = rest[..<end.lowerBound].dropFirst(lead.count)
            rest = rest[end.upperBound...]
        }
        let usual = given.map { String($0) }.flatMap { SimilarWord.isOpposite($0, of: String(name)) ? nil : $0 }
        let advice =
            (better ?? usual).map { "Did you mean '--\($0)'?" }
            ?? "`clientctl \(words.joined(separator: " ")) --help` lists the options."
        return "\(text[..<name.endIndex])'. \(advice)\(rest)"
    }
}
