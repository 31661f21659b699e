import BundleValues
import ArgumentParser
import BundleCore

struct Prune: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prune",
        abstract: "Remove old clients and the leftovers of interrupted runs.",
        discussion: """
            The current, previous, next, fallback and newest clients are never removed.
            Neither is the client that a running serve shows.

            Examples:
              clientctl prune --store /var/lib/clientctl --dry-run
              clientctl prune --store /var/lib/clientctl --keep 2
            """)

    @OptionGroup var place: StoreOptions

    @Option(help: .keep) var keep: String?

    @Flag(help: "List the clients that would be removed, and remove nothing.")
    var dryRun = false

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let path = try place.required()
        let plan = try await prune(path, keep: try FlagValue.keep(keep), isDryRun: dryRun)
        let ledger = try Inventory.read(at: path).ledger
        Output.give(
            json: common.json, afterChange: true,
            [
                "outcome": .string(dryRun ? "dryRun" : plan.removed.isEmpty ? "unchanged" : "removed"),
                "retained": .names(plan.retained), "shown": .names(plan.shown),
                "removed": .names(plan.removed),
            ],
            lines: plan.retained.map { Self.line($0, in: plan, of: ledger) }
                + plan.removed.map { "\(dryRun ? "would remove" : "removed") \($0)" }
                + (plan.removed.isEmpty ? ["no client to remove"] : []))
    }

    /// Returns the line of a client that stays, with the reasons.
    private static func line(_ name: ClientName, in plan: RetentionPlan, of ledger: Ledger) -> String {
        let reasons = ledger.roles(of: name) + (plan.shown.contains(name) ? ["still shown by a page"] : [])
        return "keep    \(name)" + (reasons.isEmpty ? "" : ": \(reasons.joined(separator: ", "))")
    }

    private func prune(_ path: String, keep: Int, isDryRun: Bool) async throws -> RetentionPlan {
        try Wiring.requireStore(path)
        if isDryRun { return RetentionRule.plan(try Inventory.read(at: path), keep: keep) }
        let store = try await BundleStore.openWaiting(at: path, environment: .command)
        return try await store.retain(keeping: keep)
    }
}
