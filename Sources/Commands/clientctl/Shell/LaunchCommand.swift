import BundleValues
import BundleCore
import BundleDisk
import ArgumentParser

/// `clientctl launch`.
struct LaunchCommand: ParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "launch",
        abstract: "Choose the client to show, prepare it, and record the start.",
        discussion: """
            Prints the folder to serve, the version and a launch token. The start is on the
            disk when the command returns. Show the folder's index.html, and run
            `clientctl confirm` when the client works, or `clientctl fail` if it does not.
            A client that has never confirmed a start is on trial. Without a verdict, the
            next launch counts its start as failed, and falls back to the last confirmed
            client or to the seed. The client is retried once, then blocked.

            Exits with 44 if the device is locked. If the device requires a session and no
            user is logged in, the seed is shown to guests without recording a start. Exits
            with 45 if there is no seed.

            Examples:
              clientctl launch --store /var/lib/clientctl \\
                --seed /usr/share/kiosk/www
              clientctl launch --store /var/lib/clientctl --json
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var shell: ShellOptions
    @OptionGroup var common: CommonOptions

    func needs() -> (confinement: Confinement, startsPrograms: Bool) {
        (Confinement(made: FlagValue.folders(place.store)), false)
    }

    func run() throws {
        let launched = try Wiring.launch(place, shell: shell)
        let prepared = launched.prepared
        let path = try Wiring.absolute(prepared.client.root.path)
        Output.give(
            json: common.json, afterChange: true,
            [
                "version": .string(launched.name.shortDescription), "source": .string(prepared.client.source),
                "servingRoot": .string(path), "token": .string(launched.token.text),
                "inPlace": .bool(prepared.client.root.isInPlace), "trial": .bool(launched.isTrial),
                "reason": .string(prepared.choice.reason.description),
                "requiredEndpoints": .array(prepared.client.requiredEndpoints.map(JSONValue.string)),
            ],
            lines: [
                "\(launched.name)\(launched.isTrial ? ", on trial" : ""): \(prepared.choice.reason)",
                "  root   \(path)", "  token  \(launched.token.text)",
            ])
    }
}
