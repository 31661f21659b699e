import ArgumentParser
import BundleCore

/// `clientctl rollback`.
struct Rollback: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Goes back to an installed client, and blocks what is newer.",
        discussion: """
            Takes effect at the next launch or reload. What is blocked stays installed but
            does not run and is not installed again until `clientctl unblock`; a release
            that is newer still is taken as usual.

            Examples:
              clientctl rollback --store /var/lib/kiosk
              clientctl rollback --store /var/lib/kiosk --to 1.4.2
              clientctl rollback --store /var/lib/kiosk --to embedded
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp(
            "The client to go back to; the last known good one, or the next lower.", valueName: "version"))
    var to: String?

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let target = try to.map { try settings.parsed("to", $0) { try ClientName(parsingArgument: $0) } }
        let verdicts = try Verdicts(store: try settings.required("store", place.store)) {
            Answer.say("clientctl: \($0)")
        }
        let result = try verdicts.rollBack(to: target)
        Answer.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            [
                "outcome": .string("rolledBack"), "version": .string(result.target.shortDescription),
                "blocked": .names(result.blocked),
            ],
            ["next: \(result.target)"] + result.blocked.map { "blocked \($0.folderName)" })
    }
}

/// `clientctl unblock`.
struct Unblock: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lets a blocked version run again, as if it had never failed.",
        discussion: """
            Example:
              clientctl unblock 1.5.0 --store /var/lib/kiosk
            """)

    @Argument(help: "The version.")
    var version: String

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let version = try settings.parsed("version", version) { try SemanticVersion(parsingArgument: $0) }
        let verdicts = try Verdicts(store: try settings.required("store", place.store)) {
            Answer.say("clientctl: \($0)")
        }
        let wasBlocked = try verdicts.unblock(version)
        Answer.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            ["outcome": .string(wasBlocked ? "unblocked" : "notBlocked"), "version": .string(version.description)],
            [wasBlocked ? "\(version) may run again" : "\(version) was not blocked"])
    }
}
