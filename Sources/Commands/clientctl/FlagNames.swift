import ArgumentParser
import Glibc

/// The flags of all commands, as the commands declare them: what the environment and the configuration file may set.
enum FlagNames {
    /// Without the dashes in front. Some commands share a configuration, so a flag of any of them may stand in it.
    static let all = commands(below: Clientctl.self).reduce(into: Set<String>()) { $0.formUnion(flags(of: $1.init())) }
        .subtracting(["config"])

    /// What the names of all variables that are settings begin with.
    static let variables = "CLIENTCTL_"

    /// The variable that sets a flag.
    static func variable(_ name: String) -> String { variables + name.uppercased().replacing("-", with: "_") }

    /// The first variable of the environment that looks like a flag and is none.
    static func unknownVariable() -> String? {
        let given = environment().filter { $0.hasPrefix(variables) }.sorted()
        // To ask every command for its flags takes longer than most commands do.
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

    /// Returns the flags of `options`, without the dashes in front.
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

    /// `_minShell` is `min-shell`, as ArgumentParser has it.
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
