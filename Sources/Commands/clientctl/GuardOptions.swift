import ArchiveSource
import ArgumentParser
import BundleFleet
import BundleValues

/// Which releases may go on, by what devices report.
struct GuardOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The Prometheus or VictoriaMetrics that counts what devices report.", valueName: "url"))
    var prometheus: String?

    @Option(help: ArgumentHelp("The share of starts that may fail, 0.1% to 45%; 2% by default.", valueName: "percent"))
    var maxFailures: String?

    @Option(
        help: ArgumentHelp(
            "In place of --max-failures, without statistics: so many failed starts, or such a share.",
            valueName: "n|percent"))
    var allowFailures: String?

    @Option(
        help: ArgumentHelp("A start without a verdict for so long has failed; 10m by default.", valueName: "duration"))
    var verdictWithin: String?

    func server(_ settings: Settings) throws -> FetchURL {
        try FetchURL(parsing: settings.required("prometheus", prometheus))
    }

    func patience(_ settings: Settings) throws -> Duration {
        try PublishTime.duration("verdict-within", verdictWithin, settings) ?? .seconds(600)
    }

    func rule(_ settings: Settings) throws -> GuardRule {
        let share = try settings.optional("max-failures", maxFailures)
        if let text = try settings.optional("allow-failures", allowFailures) {
            if maxFailures != nil { throw ValidationError("Give --max-failures or --allow-failures, one of them.") }
            if text.hasSuffix("%") {
                return .simple(starts: 0, permille: try ChannelEditOptions.share("--allow-failures", text).permille)
            }
            return .simple(starts: try settings.integer("allow-failures", text, atLeast: 0), permille: 0)
        }
        let permille = try share.map { try ChannelEditOptions.share("--max-failures", $0).permille } ?? 20
        guard (1...450).contains(permille) else {
            throw ValidationError(
                "--max-failures takes 0.1% to 45%. To allow no failure at all, give --allow-failures 0.")
        }
        return .rate(permille: permille)
    }
}
