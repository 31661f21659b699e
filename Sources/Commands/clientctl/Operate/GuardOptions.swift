import ArchiveSource
import ArgumentParser
import BundleFleet
import BundleValues

/// The rule that decides from the reports of devices whether a rollout continues.
struct GuardOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "(required) The Prometheus or VictoriaMetrics that has the reports of devices.", valueName: "url"))
    var prometheus: String?

    @Option(help: ArgumentHelp("Percentage of starts that can fail, 0.1% to 45%. (default: 2%)", valueName: "percent"))
    var maxFailures: String?

    @Option(
        help: ArgumentHelp(
            "Instead of --max-failures: a fixed number or percentage of failed starts.",
            valueName: "n|percent"))
    var allowFailures: String?

    @Option(
        help: ArgumentHelp(
            "Count a start with no result after this time as failed. (default: 10m)", valueName: "duration"))
    var verdictWithin: String?

    func server(_ settings: Settings) throws -> FetchURL {
        try FetchURL(parsing: settings.required("prometheus", prometheus))
    }

    func timeout(_ settings: Settings) throws -> Duration {
        try PublishTime.duration("verdict-within", verdictWithin, settings) ?? .seconds(600)
    }

    func rule(_ settings: Settings) throws -> GuardRule {
        let share = try settings.optional("max-failures", maxFailures)
        if let text = try settings.optional("allow-failures", allowFailures) {
            if maxFailures != nil { throw ValidationError("Give --max-failures or --allow-failures, not both.") }
            if text.hasSuffix("%") {
                return .simple(starts: 0, permille: try ChannelEditOptions.share("--allow-failures", text).permille)
            }
            return .simple(starts: try settings.integer("allow-failures", text, atLeast: 0), permille: 0)
        }
        let permille = try share.map { try ChannelEditOptions.share("--max-failures", $0).permille } ?? 20
        guard (1...450).contains(permille) else {
            throw ValidationError(
                "--max-failures takes 0.1% to 45%. To allow no failure, give --allow-failures 0.")
        }
        return .rate(permille: permille)
    }
}
