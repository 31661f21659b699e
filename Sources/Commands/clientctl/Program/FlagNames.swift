import ArgumentParser
import CLibrary

/// The flags of all commands, which the environment and the configuration file may set.
enum FlagNames {
    /// All flags without the leading dashes. Several commands share a configuration, so it may set flags of all commands.
    static let all = commands(below: Clientctl.self).reduce(into: Set<String>()) { $0.formUnion(flags(of: $1.init())) }
        .subtracting(["config"])

    /// The prefix of variables that set flags.
    static let variables = "CLIENTCTL_"

    /// Returns the variable that sets the flag `name`.
    static func variable(_ name: String) -> String { variables + name.uppercased().replacing("-", with: "_") }

    /// Returns the first variable of the environment with the prefix that is not a flag.
    static func unknownVariable() -> String? {
        let given = environment().filter { $0.hasPrefix(variables) }.sorted()
        // Reading the flags of every command takes longer than most commands.
        if given.isEmpty { return nil }
        let known = Set(all.map(variable) + [variable("config"), Passphrase.variable])
        return given.first { !known.contains($0) }
    }

    private static func environment() -> [String] {
        var names: [String] = []
        var next = environ
        while let text = next.pointee {
            names.append(String(String(cString: text).prefix { $0 != "=" }))
            next += 1
        }
        return names
    }

    private static func commands(below command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        let below = command.configuration.subcommands
        return below.isEmpty ? [command] : below.flatMap(commands)
    }

    /// Returns the flags of `options` without the leading dashes.
    static func flags(of options: any ParsableArguments) -> Set<String> {
        var names: Set<String> = []
        for case (let label?, let value) in Mirror(reflecting: options).children {
            switch value {
            case let group as any FlagGroup: names.formUnion(flags(of: type(of: group).options.init()))
            case is any NamedFlag: names.insert(kebab(label))
            default: break
            }
        }
        return names
    }

    /// Returns the name that ArgumentParser gives to a property, such as `min-shell` for `_minShell`.
    private static func kebab(_ label: String) -> String {
        label.drop { $0 == "_" }.reduce(into: "") { $0 += $1.isUppercase ? "-\($1.lowercased())" : String($1) }
    }
}

private protocol NamedFlag {}
extension Option: NamedFlag {}
extension Flag: NamedFlag {}

private protocol FlagGroup {
    static var options: any ParsableArguments.Type { get }
}
extension OptionGroup: FlagGroup {
    fileprivate static var options: any ParsableArguments.Type { Value.self }
}
