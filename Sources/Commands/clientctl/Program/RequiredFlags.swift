import ArgumentParser
import BundleValues

/// A required flag without a value in the arguments, the environment and the configuration file.
struct MissingFlag: Error {
    /// The flag, or several flags of which the command needs one.
    let flags: [String]
}

/// A command that requires flags which are optional in other commands that share them.
protocol RequiringCommand: ParsableCommand {
    static var alsoRequired: [RequiredFlags.Need] { get }
}

/// The required flags of commands, as their options declare them: the help of such an option begins with `(required)`, or with
/// `(required, or --other)` if another flag replaces it. They are optional for the parser, because their values may come from the
/// environment and the configuration file.
enum RequiredFlags {
    /// A required flag, or several flags of which one is required.
    struct Need: Equatable {
        /// The flags with the names of their values, such as `feed <place>`.
        let flags: [String]
        /// The flag that makes this one optional.
        var unless: String?

        init(_ flags: String..., unless: String? = nil) {
            self.flags = flags
            self.unless = unless
        }

        fileprivate init(_ flags: [String]) { self.flags = flags }

        var names: [String] { flags.map { String($0.prefix { $0 != " " }) } }

        /// The text in the usage of a command.
        var usage: String {
            let shown = flags.map { "--\($0)" }.joined(separator: " | ")
            if unless != nil { return "[\(shown)]" }
            return flags.count == 1 ? shown : "(\(shown))"
        }

        fileprivate var words: String { RequiredFlags.shown(names) }
    }

    /// Returns the needs of `command`, in the order of its help.
    static func needs(of command: any ParsableCommand.Type) -> [Need] {
        var own = (command as? any RequiringCommand.Type)?.alsoRequired ?? []
        var needs: [Need] = []
        for need in declared(by: command) {
            if let index = own.firstIndex(where: { !Set($0.names).isDisjoint(with: need.names) }) {
                needs.append(own.remove(at: index))
            } else {
                needs.append(need)
            }
        }
        return own + needs
    }

    private static func declared(by command: any ParsableCommand.Type) -> [Need] {
        let dump = Array(command._dumpHelp().utf8)
        let tool = (try? JSONScanner.parse(dump, maximumBytes: dump.count))?.objectValue
        let arguments = tool?["command"]?.objectValue?["arguments"]?.arrayValue ?? []
        var usages: [String: String] = [:]
        var needs: [(name: String, others: [String])] = []
        for argument in arguments.compactMap(\.objectValue) {
            // Operands have no name.
            guard let name = argument["preferredName"]?.objectValue?["name"]?.stringValue else { continue }
            let value = argument["kind"] == .string("option") ? argument["valueName"]?.stringValue : nil
            usages[name] = name + (value.map { " <\($0)>" } ?? "")
            if let others = replacements(argument["abstract"]?.stringValue ?? "") { needs.append((name, others)) }
        }
        return needs.map { name, others in Need(([name] + others).map { usages[$0] ?? $0 }) }
    }

    /// Returns the flags that replace the one with the help `abstract`; nil if it is not required, or only with other arguments.
    private static func replacements(_ abstract: String) -> [String]? {
        guard let rest = abstract.dropping(prefix: "(required"), let end = rest.firstIndex(of: ")") else { return nil }
        let condition = rest[..<end]
        guard condition.isEmpty || condition.hasPrefix(", or ") else { return nil }
        return condition.split { " ,".contains($0) }.filter { $0.hasPrefix("--") }.map { String($0.dropFirst(2)) }
    }

    /// Returns the message about `missing`, and about the other flags that `command` requires and `isGiven` does not find.
    static func message(
        _ missing: MissingFlag, of command: (any ParsableCommand.Type)?, isGiven: (String) -> Bool
    ) -> String {
        let all = (command.map(needs) ?? []).filter { need in
            !need.names.contains(where: isGiven) && need.unless.map(isGiven) != true
        }
        let isListed = all.contains { !Set($0.names).isDisjoint(with: missing.flags) }
        let named = (isListed ? [] : [shown(missing.flags)]) + all.map(\.words)
        let first = isListed ? all.first?.names.first : missing.flags.first
        let isOne = named.count == 1
        return "Missing \(list(named)): give the \(isOne ? "flag" : "flags"), "
            + (isOne ? "set " : "set variables such as ") + "\(FlagNames.variable(first ?? "")), or put "
            + (isOne ? "" : "keys such as ") + "\"\(first ?? "")\" into the configuration file."
            + projectAdvice(missing.flags + all.flatMap(\.names), of: command.flatMap { CommandName.words(of: $0) })
    }

    /// Returns a sentence about the project file if the working folder has none and it usually sets one of `flags`.
    private static func projectAdvice(_ flags: [String], of words: [String]?) -> String {
        guard ProjectFile.isMissing(for: words?.first), !projectFlags.isDisjoint(with: flags) else { return "" }
        return
            " The working folder has no \(ProjectFile.name): run the command in the project's folder, or create the file with "
            + "`clientctl init`."
    }

    /// The flags that `init` writes.
    private static let projectFlags: Set = ["feed", "key", "channel", "channel-key"]

    private static func list(_ words: [String]) -> String {
        guard words.count > 1, let end = words.last else { return words.first ?? "" }
        return "\(words.dropLast().joined(separator: ", ")) and \(end)"
    }

    /// Returns the first flag, followed by its alternatives in parentheses.
    fileprivate static func shown(_ names: [String]) -> String {
        let flags = names.map { "--\($0)" }
        let others = flags.dropFirst().joined(separator: ", ")
        return (flags.first ?? "") + (others.isEmpty ? "" : " (or \(others))")
    }

    /// Returns `text`, a message of the parser, with the required flags in its usage.
    static func showingUsage(in text: String) -> String {
        guard let start = ["USAGE: clientctl ", "Usage: clientctl "].compactMap({ text.firstRange(of: $0) }).first
        else {
            return text
        }
        let rest = text[start.upperBound...]
        let end = rest.firstRange(of: "\n")?.lowerBound ?? rest.endIndex
        let tokens = rest[..<end].split(separator: " ").map(String.init)
        guard let (command, count) = CommandName.command(tokens) else { return text }
        let needs = needs(of: command).map(\.usage)
        if needs.isEmpty { return text }
        let words = tokens.prefix(count)
        var operands: [String] = []
        for (index, token) in tokens.enumerated().dropFirst(count) where !["<options>", "[<options>]"].contains(token) {
            let isValue = tokens[index - 1].hasPrefix("--") || tokens[index - 1].hasPrefix("[--")
            if token.hasPrefix("<") || token.hasPrefix("[<"), !isValue { operands.append(token) }
        }
        let usage = (Array(words) + operands + needs + ["[<options>]"]).joined(separator: " ")
        return "\(text[..<start.upperBound])\(usage)\(rest[end...])"
    }
}
