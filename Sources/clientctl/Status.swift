import ArgumentParser
import BundleCore

/// `clientctl status`.
struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells what would run, and why each other client would not.",
        discussion: """
            With --verify, every installed file is compared with its receipt; a
            difference ends with status 33.

            Examples:
              clientctl status --store /var/lib/kiosk --shell-version 1.2.0
              clientctl status --store /var/lib/kiosk --verify
            """)

    @OptionGroup var place: StoreOptions

    @Option(
        help: ArgumentHelp("Version of the shell; without it every shell range counts as met.", valueName: "version"))
    var shellVersion: String?

    @Flag(help: "Compare every installed file with its receipt.")
    var verify = false

    @OptionGroup var common: CommonOptions

    func run() throws {
        let settings = try common.settings()
        let store = try settings.required("store", place.store)
        let shell = try settings.optional("shell-version", shellVersion).map {
            try settings.parsed("shell-version", $0) { try SemanticVersion(parsingArgument: $0) }
        }
        let inventory = try Wiring.inventory(store)
        if verify { try requireWhole(inventory, store) }
        let rows = StatusRule.rows(inventory, shell: shell)
        Answer.give(
            json: try settings.isOn("json", common.json),
            [
                "wouldRun": .string(rows.first { $0.runs }?.name.description ?? ClientName.embedded.description),
                "current": .string(inventory.ledger.current.description),
                "previous": .string(orNull: inventory.ledger.previous?.description),
                "appId": .string(orNull: inventory.ledger.appId),
                "verified": .bool(verify),
                "clients": .array(
                    rows.map {
                        .object([
                            "name": .string($0.name.description), "runs": .bool($0.runs), "reason": .string($0.reason),
                        ])
                    }),
                "blocked": .array(
                    inventory.ledger.blocks.map {
                        .object([
                            "version": .string($0.version.description), "reason": .string($0.reason),
                            "since": .string($0.since.description),
                        ])
                    }),
            ],
            rows.map { "\($0.runs ? "*" : " ") \($0.name)  \($0.reason)" })
    }

    private func requireWhole(_ inventory: Inventory, _ store: String) throws {
        for bundle in inventory.bundles {
            guard let difference = try InstalledTree.difference(of: bundle, inStoreAt: store) else { continue }
            throw UpdateFailure(
                .storeDamaged, subject: "\(bundle.name): \(difference)",
                "The store disagrees with its receipts: in \(bundle.name), \(difference). "
                    + "Remove \(bundle.path) and install again.")
        }
    }
}
