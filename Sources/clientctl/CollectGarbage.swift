import ArgumentParser
import BundleCore

/// `clientctl gc`.
struct CollectGarbage: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "Removes clients beyond the N to keep, and what interrupted runs left.",
        discussion: """
            The current client, the previous one and the newest always stay.

            Examples:
              clientctl gc --store /var/lib/kiosk --dry-run
              clientctl gc --store /var/lib/kiosk --keep 2
            """)

    @OptionGroup var place: StoreOptions

    @Option(help: ArgumentHelp("Clients to keep; 3 by default.", valueName: "n"))
    var keep: String?

    @Flag(help: "Show the plan only.")
    var dryRun = false

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        let path = try settings.required("store", place.store)
        let keep = try settings.optional("keep", keep).map { try settings.integer("keep", $0, atLeast: 1) }
        let plan = try await collect(path, keep: keep ?? RetentionRule.defaultKeep)
        Answer.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            [
                "outcome": .string(dryRun ? "dryRun" : "collected"), "retained": .names(plan.retained),
                "removed": .names(plan.removed),
            ],
            plan.retained.map { "keep    \($0.folderName)" }
                + plan.removed.map { "\(dryRun ? "would remove" : "removed") \($0.folderName)" })
    }

    private func collect(_ path: String, keep: Int) async throws -> RetentionPlan {
        if dryRun { return RetentionRule.plan(try Inventory.read(at: path), keep: keep) }
        guard try Inventory.exists(at: path) else { return RetentionPlan(retained: [], removed: []) }
        let store = try BundleStore.open(at: path) { Answer.say("clientctl: \($0)") }
        let plan = RetentionRule.plan(try await store.inventory(), keep: keep)
        try await store.retain(plan)
        return plan
    }
}
