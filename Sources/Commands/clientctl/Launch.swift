import BundleValues
import BundleCore
import BundleDisk
import ArgumentParser

/// `clientctl launch`.
struct LaunchCommand: ParsableCommand, ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "launch",
        abstract: "Choose the client to show, prepare it, and record the boot attempt.",
        discussion: """
            Prints the folder to serve, the version and a launch token. When it returns,
            the attempt is on the disk. Show the folder's index.html, then say
            `clientctl confirm` once the client works, or `clientctl fail`. A client that
            never confirmed a start is on trial: without a verdict the next launch counts
            it as failed, falls back to the last client that worked or to the seed,
            retries it once, then blocks it.

            If the device is locked, it ends with 44. If the device requires a session and
            nobody is logged in, the seed is shown to guests, without a boot attempt; where
            there is none, it ends with 45.

            Examples:
              clientctl launch --store /var/lib/clientctl --shell-version 1.2.0 \\
                --seed /usr/share/kiosk/www
              clientctl launch --store /var/lib/clientctl --shell-version 1.2.0 --json
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var shell: ShellOptions
    @OptionGroup var common: CommonOptions

    func needs(_ settings: Settings) throws -> (confinement: Confinement, startsPrograms: Bool) {
        (Confinement(made: try settings.folders("store", place.store)), false)
    }

    func run() throws {
        let settings = try common.settings()
        let launched = try Wiring.launch(place, shell, settings)
        let prepared = launched.prepared
        let path = try Wiring.absolute(prepared.client.root.path)
        Output.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            [
                "version": .string(launched.name.shortDescription), "source": .string(prepared.client.source),
                "servingRoot": .string(path), "token": .string(launched.token.text),
                "inPlace": .bool(prepared.client.root.isInPlace), "trial": .bool(launched.isTrial),
                "reason": .string(prepared.choice.reason.description),
            ],
            [
                "\(launched.name)\(launched.isTrial ? ", on trial" : ""): \(prepared.choice.reason)",
                "  root   \(path)", "  token  \(launched.token.text)",
            ])
    }
}
