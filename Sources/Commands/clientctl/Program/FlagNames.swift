import ArgumentParser
import BundleValues

/// The flags of all commands, which the environment and the configuration file may set.
enum FlagNames {
    /// All flags without the leading dashes. Several commands share a configuration, so it may set flags of all commands.
    static let all = commands(below: Clientctl.self).reduce(into: Set<String>()) { $0.formUnion(flags(of: $1.init())) }
        .subtracting(["config"])

    /// Returns the variable that sets the flag `name`.
    static func variable(_ name: String) -> String { OwnVariables.prefix + name.uppercased().replacing("-", with: "_") }

    /// Returns the first variable of the environment with the prefix that is not a flag.
    static func unknownVariable() -> String? {
        let given = OwnVariables.names
        // Reading the flags of every command takes longer than most commands.
        if given.isEmpty { return nil }
        let known = Set(knownVariables)
        return given.first { !known.contains($0) }
    }

    /// The variables that this program reads.
    private static var knownVariables: [String] { all.map(variable) + [variable("config"), Passphrase.variable] }

    /// Returns advice about the variable `name`, which is not a flag.
    static func advice(about name: String) -> String {
        similar(to: name, in: knownVariables.sorted()).map { "Did you mean \($0)?" } ?? "Correct its name or remove it."
    }

    /// Returns the name of `known` that `name` is a slip of. Exchanged letters are the most frequent slip.
    static func similar(to name: String, in known: [String]) -> String? {
        known.first { $0.sorted() == name.sorted() } ?? SimilarWord.closest(to: name, in: known)
    }

    private static func commands(below command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        let below = command.configuration.subcommands
        return below.isEmpty ? [command] : below.flatMap(commands)
    }

    enum Kind {
        case single
        /// A flag that can be repeated.
        case list
        /// A flag without a value.
        case toggle
    }

    /// Returns the flags of `options` without the leading dashes.
    static func flags(of options: any ParsableArguments) -> Set<String> { Set(kinds(of: options).keys) }

    static func kinds(of options: any ParsableArguments) -> [String: Kind] {
        var kinds: [String: Kind] = [:]
        for case (let label?, let value) in Mirror(reflecting: options).children {
            switch value {
            case let group as any FlagGroup: kinds.merge(self.kinds(of: type(of: group).options.init())) { $1 }
            case let flag as any NamedFlag: kinds[kebab(label)] = type(of: flag).kind
            default: break
            }
        }
        return kinds
    }

    /// Returns the name that ArgumentParser gives to a property, such as `min-shell` for `_minShell`.
    private static func kebab(_ label: String) -> String {
        label.drop { $0 == "_" }.reduce(into: "") { $0 += $1.isUppercase ? "-\($1.lowercased())" : String($1) }
    }
}

private protocol NamedFlag {
    static var kind: FlagNames.Kind { get }
}
extension Option: NamedFlag {
    fileprivate static var kind: FlagNames.Kind { Value.self is [String].Type ? .list : .single }
}
extension Flag: NamedFlag {
    fileprivate static var kind: FlagNames.Kind { .toggle }
}

private protocol FlagGroup {
    static var options: any ParsableArguments.Type { get }
}
extension OptionGroup: FlagGroup {
    fileprivate static var options: any ParsableArguments.Type { Value.self }
}
