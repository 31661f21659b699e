import ArgumentParser
import BundleCore
import BundleValues
import BundleSigning

struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the installed clients.",
        discussion: """
            The list has archives from the oldest to the newest version, then hot code
            pushes. A star marks the client that the next launch shows.

            Example:
              clientctl list --store /var/lib/clientctl
            """)

    @OptionGroup var place: StoreOptions
    @OptionGroup var common: CommonOptions

    func run() throws {
        let inventory = try Wiring.inventory(place.required())
        let ledger = inventory.ledger
        let next = SelectionRule.select(inventory, shell: ledger.shell, hasSeed: ledger.mayHaveSeed)?.name
        let names = (ledger.mayHaveSeed ? [ClientName.embedded] : []) + inventory.bundles.map(\.name)
        let shown = names.filter { ledger.known($0) != nil }
        Output.give(
            json: common.json,
            [
                "versions": .array(names.map { .string($0.description) }),
                "current": .string(ledger.current.description),
                "pending": .string(orNull: ledger.pending?.description),
                "previous": .string(orNull: ledger.known(ledger.previous)?.description),
                "clients": .array(inventory.bundles.map(describe)),
            ],
            lines: shown.isEmpty ? ["no clients"] : shown.map { "\($0 == next ? "*" : " ") \($0)" })
    }

    private func describe(_ bundle: InstalledBundle) -> JSONValue {
        let entry = bundle.entry
        return .object([
            "name": .string(bundle.name.description),
            "version": .string(entry.version.description),
            "source": .string(entry.identity.source.rawValue),
            "path": .string(bundle.path),
            "files": .integer(entry.fileCount),
            "installedSize": .integer(entry.installedSize),
            "contentSha256": .string(entry.contentSha256.hex),
            "minShellVersion": .string(orNull: entry.shells?.minimum.description),
            "maxShellVersion": .string(orNull: entry.shells?.maximum?.description),
            "installedAt": .string(entry.installedAt.description),
        ])
    }
}
