import BundleFormats
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
            "Instead of --max-failures: stop after more failed starts than this number or percentage. To advance, most devices that can have the release, and at least 3, must have reported, and most of these starts must be confirmed.",
            valueName: "n|percent"))
    var allowFailures: String?

    @Option(
        help: ArgumentHelp(
            "Count a start with no result after this time as failed. (default: 10m)", valueName: "duration"))
    var verdictWithin: String?

    func server() throws -> FetchURL {
        try FetchURL(parsing: FlagValue.required(prometheus, of: "prometheus"))
    }

    func timeout() throws -> Duration {
        try PublishTime.duration(verdictWithin, of: "verdict-within") ?? .seconds(600)
    }

    func rule() throws -> GuardRule {
        if let text = allowFailures {
            if CommandLineFlags.contain("max-failures") {
                throw ValidationError("Give --max-failures or --allow-failures, not both.")
            }
            if text.hasSuffix("%") {
                return .simple(
                    starts: 0, permille: try ChannelEditOptions.share("--allow-failures", text: text).permille)
            }
            return .simple(starts: try FlagValue.integer(text, of: "allow-failures", atLeast: 0), permille: 0)
        }
        let permille =
            try maxFailures.map { try ChannelEditOptions.share("--max-failures", text: $0).permille }
            ?? GuardRule.standardRate
        guard (1...450).contains(permille) else {
            throw ValidationError("--max-failures takes 0.1% to 45%. To allow no failure, give --allow-failures 0.")
        }
        return .rate(permille: permille)
    }
}
