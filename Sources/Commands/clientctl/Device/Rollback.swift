import BundleValues
import ArgumentParser
import BundleCore

/// `clientctl rollback`.
struct Rollback: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Go back to an installed client, and block newer ones.",
        discussion: """
            The rollback takes effect at the next launch or reload. Blocked clients stay
            installed, but do not run and are not installed again until
            `clientctl unblock`. Releases that are newer than the blocked ones are
            installed as usual. The exit status is 3 if there is no client to go back to.

            Examples:
              clientctl rollback --store /var/lib/clientctl
              clientctl rollback --store /var/lib/clientctl --version 1.4.2
              clientctl rollback --store /var/lib/clientctl --version embedded
              clientctl rollback --store /var/lib/clientctl --of 1.5.0
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "Client to go back to, or embedded for the seed (default: the last confirmed client, otherwise the next lower one).",
            valueName: "version"), completion: .versions)
    var version: String?

    @Option(
        help: ArgumentHelp(
            "Only go back if this client runs or is next.", valueName: "version"))
    var of: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let verdicts = try Verdicts(store: store, environment: .command)
        let known = try Inventory.read(at: store).knownNames
        func client(_ flag: String, given: String?) throws -> ClientName? {
            try given.map { text in
                try FlagValue.parsed(text, of: flag) { try ClientReference($0).resolve(among: known) }
            }
        }
        let result = try verdicts.rollBack(to: client("version", given: version), of: client("of", given: of))
        func give(_ outcome: String, of name: ClientName, blocked: [ClientName] = [], lines: [String]) {
            Output.give(
                json: common.json, afterChange: outcome == "rolledBack",
                [
                    "outcome": .string(outcome), "version": .string(name.shortDescription),
                    "blocked": .names(blocked),
                ], lines: lines)
        }
        switch result {
        case .back(let target, let blocked):
            give(
                "rolledBack", of: target, blocked: blocked, lines: ["next: \(target)"] + blocked.map { "blocked \($0)" }
            )
        case .notShown(let name):
            give("notShown", of: name, lines: ["\(name) neither runs nor is next, so nothing was changed"])
        case .alreadyBack(let name, let advice):
            give("alreadyRolledBack", of: name, lines: [advice])
            throw ExitCode(ExitTable.nothingToDo)
        case .nothingBelow(let name, let advice):
            give("nothingBelow", of: name, lines: [advice])
            throw ExitCode(ExitTable.nothingToDo)
        }
    }
}

/// `clientctl unblock`.
struct Unblock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unblock",
        abstract: "Let a blocked version run again, and forget its failures.",
        discussion: """
            Example:
              clientctl unblock --version 1.5.0 --store /var/lib/clientctl
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let store = try place.required()
        let text = try version.required()
        let verdicts = try Verdicts(store: store, environment: .command)
        let known = try Inventory.read(at: store).knownNames
        let name = try FlagValue.parsed(text, of: "version") { try ClientReference($0).resolve(among: known) }
        guard let version = name.version else {
            throw ValidationError("The seed is never blocked. Give the version of an installed client.")
        }
        let wasBlocked = try verdicts.unblock(version)
        Output.give(
            json: common.json, afterChange: true,
            ["outcome": .string(wasBlocked ? "unblocked" : "notBlocked"), "version": .string(version.description)],
            lines: [
                wasBlocked
                    ? "\(version) may run again"
                    : known.contains(name)
                        ? "\(version) was not blocked"
                        : "\(version) is neither installed nor blocked: `clientctl list` shows the installed clients"
            ])
    }
}
