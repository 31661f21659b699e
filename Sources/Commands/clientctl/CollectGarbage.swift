import BundleValues
import ArgumentParser
import BundleCore

/// `clientctl gc`.
struct CollectGarbage: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "Remove old clients, and what interrupted runs left behind.",
        discussion: """
            What runs, ran before, runs next or is fallen back to always stays, and so does
            the newest and what a running `serve` shows.

            Examples:
              clientctl gc --store /var/lib/clientctl --dry-run
              clientctl gc --store /var/lib/clientctl --keep 2
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
        let isDryRun = try settings.isOn("dry-run", dryRun)
        let plan = try await collect(path, keep: try settings.keep(keep), isDryRun)
        Output.give(
            json: try settings.isOn("json", common.json), afterChange: true,
            [
                "outcome": .string(isDryRun ? "dryRun" : "collected"), "retained": .names(plan.retained),
                "removed": .names(plan.removed),
            ],
            plan.retained.map { "keep    \($0)" }
                + plan.removed.map { "\(isDryRun ? "would remove" : "removed") \($0)" })
    }

    private func collect(_ path: String, keep: Int, _ isDryRun: Bool) async throws -> RetentionPlan {
        try Wiring.requireStore(path)
        if isDryRun { return RetentionRule.plan(try Inventory.read(at: path), keep: keep) }
        let store = try BundleStore.open(at: path, time: .now) { Output.say("clientctl: \($0)") }
        return try await store.retain(keeping: keep)
    }
}
