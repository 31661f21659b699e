import BundleValues
import ArgumentParser
import BundleCore

/// `clientctl rollback`.
struct Rollback: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Go back to an installed client, and block newer ones.",
        discussion: """
            Takes effect at the next launch or reload. What is blocked stays installed but
            does not run and is not installed again until `clientctl unblock`; a release
            that is newer still is taken as usual. Exit status 3: there is nothing to go
            back to.

            Examples:
              clientctl rollback --store /var/lib/clientctl
              clientctl rollback --store /var/lib/clientctl --version 1.4.2
              clientctl rollback --store /var/lib/clientctl --version embedded
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "The client to go back to, or embedded; by default the last known good one, or the next lower.",
            valueName: "version"))
    var version: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let verdicts = try Verdicts(store: store) { Output.say("clientctl: \($0)") }
        let known = try Inventory.read(at: store).knownNames
        let target = try settings.optional("version", version).map { text in
            try settings.parsed("version", text) { try ClientReference($0).resolve(among: known) }
        }
        let json = try settings.isOn("json", common.json)
        let result: (target: ClientName, blocked: [ClientName])
        do {
            result = try verdicts.rollBack(to: target)
        } catch let nowhere as NowhereToGoBack {
            Output.give(
                json: json,
                [
                    "outcome": .string("nothingBelow"), "version": .string(nowhere.name.shortDescription),
                    "blocked": .array([]),
                ], [nowhere.failure.message])
            throw ExitCode(ExitTable.nothingToDo)
        }
        Output.give(
            json: json, afterChange: true,
            [
                "outcome": .string("rolledBack"), "version": .string(result.target.shortDescription),
                "blocked": .names(result.blocked),
            ],
            ["next: \(result.target)"] + result.blocked.map { "blocked \($0)" })
    }
}

/// `clientctl unblock`.
struct Unblock: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unblock",
        abstract: "Let a blocked version run again, as if it had never failed.",
        discussion: """
            Example:
              clientctl unblock --version 1.5.0 --store /var/lib/clientctl
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let text = try version.required(settings)
        let verdicts = try Verdicts(store: store) { Output.say("clientctl: \($0)") }
        let known = try Inventory.read(at: store).knownNames
        let name = try settings.parsed("version", text) {
            try ClientReference($0).resolve(among: known)
        }
        guard let version = name.version else {
            throw ValidationError("The seed is never blocked: name an installed client.")
        }
        let wasBlocked = try verdicts.unblock(version)
        Output.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            ["outcome": .string(wasBlocked ? "unblocked" : "notBlocked"), "version": .string(version.description)],
            [wasBlocked ? "\(version) may run again" : "\(version) was not blocked"])
    }
}
