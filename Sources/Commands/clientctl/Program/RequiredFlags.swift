import ArgumentParser
import BundleValues

/// A required flag without a value in the arguments, the environment and the configuration file.
struct MissingFlag: Error {
    /// The flag, or several flags of which the command needs one.
    let flags: [String]
}

/// The required flags of each command. They are optional for the parser, because their values may come from the environment and the
/// configuration file.
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

        var names: [String] { flags.map { String($0.prefix { $0 != " " }) } }

        /// The text in the usage of a command.
        var usage: String {
            let shown = flags.map { "--\($0)" }.joined(separator: " | ")
            if unless != nil { return "[\(shown)]" }
            return flags.count == 1 ? shown : "(\(shown))"
        }

        fileprivate var words: String { RequiredFlags.shown(names) }
    }

    private static let store = Need("store <dir>")
    private static let version = Need("version <version>")
    private static let feed = Need("feed <place>")
    private static let channel = Need("channel <name>")
    private static let updates =
        [
            Need("channel <url|file>", "manifest <url|file>", "meteor <url>"), Need("trust <path>", unless: "meteor"),
        ] + [store]
    private static let key = Need("key <file>", "sign-command <command>")
    private static let edit = [feed, channel, Need("channel-key <file>", "sign-command <command>")]

    static let byCommand: [String: [Need]] = [
        "publish": [version, feed, key],
        "channel list": [feed], "channel log": [feed, channel], "feed offer": [feed],
        "feed page-module": [Need("trust <path>")],
        "release rollout": [version] + edit, "release target": [version] + edit,
        "release retry": [version] + edit,
        "release set": [version, Need("urgent", "no-urgent")] + edit,
        "release pause": [version] + edit, "release resume": [version] + edit, "release withdraw": [version] + edit,
        "release recall": [Need("version <version>", "below <version>")] + edit,
        "release promote": [version, Need("to <name>")] + edit,
        "channel set": [Need("poll <duration>", "busy <duration>")] + edit,
        "channel prune": [Need("keep <n>")] + edit, "channel delete": [Need("yes", "dry-run"), feed],
        "channel renew": edit, "channel restore": edit, "release delta": [version, feed, key],
        "fleet page": [feed, Need("out <file>")],
        "fleet insights": [version, feed, channel, Need("prometheus <url>")],
        "fleet guard": [
            version, feed, channel, Need("prometheus <url>"),
            Need("channel-key <file>", "sign-command <command>", "guard-key <file>", "guard-sign-command <command>"),
        ],
        "trust init": [Need("out <file>"), Need("root-key <file>"), Need("release-key <file>")], "trust sign": [key],
        "trust publish": [feed], "trust update": [feed],
        "trust add-key": [Need("role <role>"), Need("public-key <file>")],
        "trust remove-key": [Need("role <role>"), Need("key-id <id>", "public-key <file>")],
        "trust rotate": [Need("old <file>"), Need("new <file>")],
        "fleet list": [Need("roster <url|file>")], "fleet show": [Need("roster <url|file>")],
        "fleet forget": [Need("roster <url|file>")],
        "feed export": [feed, Need("to <dir>")], "feed prune": [feed],
        "check": updates, "install": updates, "serve": [store], "launch": [store],
        "confirm": [store, version, Need("token <token>")], "fail": [store, version, Need("token <token>")],
        "unblock": [store, version], "session login": [store, Need("token-file <file>")],
        "report": [store, Need("report <url>", "off")],
        "activate": [store], "keys generate": [Need("out <prefix>")],
        "status": [store], "doctor": [store], "list": [store], "rollback": [store], "repair": [store], "prune": [store],
        "session logout": [store], "screen lock": [store], "screen unlock": [store], "events": [store],
    ]

    /// Returns the message about `missing`, and about the other flags that the command `words` requires and `isGiven` does not find.
    static func message(_ missing: MissingFlag, of words: [String]?, isGiven: (String) -> Bool) -> String {
        let all = (words.flatMap { byCommand[$0.joined(separator: " ")] } ?? []).filter { need in
            !need.names.contains(where: isGiven) && need.unless.map(isGiven) != true
        }
        let isListed = all.contains { !Set($0.names).isDisjoint(with: missing.flags) }
        let named = (isListed ? [] : [shown(missing.flags)]) + all.map(\.words)
        let first = isListed ? all.first?.names.first : missing.flags.first
        let isOne = named.count == 1
        return "Missing \(list(named)): give the \(isOne ? "flag" : "flags"), "
            + (isOne ? "set " : "set variables such as ") + "\(FlagNames.variable(first ?? "")), or put "
            + (isOne ? "" : "keys such as ") + "\"\(first ?? "")\" into the configuration file."
            + projectAdvice(missing.flags + all.flatMap(\.names), of: words)
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
        guard let count = [2, 1].first(where: { byCommand[tokens.prefix($0).joined(separator: " ")] != nil }) else {
            return text
        }
        let words = tokens.prefix(count)
        var operands: [String] = []
        for (index, token) in tokens.enumerated().dropFirst(count) where !["<options>", "[<options>]"].contains(token) {
            let isValue = tokens[index - 1].hasPrefix("--") || tokens[index - 1].hasPrefix("[--")
            if token.hasPrefix("<") || token.hasPrefix("[<"), !isValue { operands.append(token) }
        }
        let needs = (byCommand[words.joined(separator: " ")] ?? []).map(\.usage)
        let usage = (Array(words) + operands + needs + ["[<options>]"]).joined(separator: " ")
        return "\(text[..<start.upperBound])\(usage)\(rest[end...])"
    }
}
