import ArchiveSource
import ArgumentParser
import BundleCore
import BundlePublish
import BundleValues

struct ReleaseGuard: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "guard",
        abstract: "Move a rollout on while devices do well with it, and stop it when they do not.",
        discussion: """
            Run it from cron, a timer or CI. Each run reads the verdicts of devices from
            Prometheus, and takes at most one step. A release that is paused stays paused:
            a person resumes it. Nothing moves without data.

            It stops when so many starts fail that a rate of --max-failures cannot explain
            it: 1 false alarm in 100 rollouts at most, however often it runs. It moves on
            when a rate twice as high is ruled out. Without a failure that takes 149 good
            starts at 1%, 74 at 2%, 29 at 5%.

            Ends with 0 after a step and when the rollout is complete, with 3 while it
            waits, with 60 when the rollout is stopped, with 61 without data.

            Example:
              clientctl release guard --version 1.5.1 --feed feed --channel stable \\
                --channel-key channel.key.pem --prometheus http://127.0.0.1:9090 \\
                --max-failures 2% --steps 1%,5%,25%,100% --bake 2h
            """)

    @OptionGroup var version: VersionOption

    @Option(help: ArgumentHelp("The Prometheus or VictoriaMetrics that counts what devices report.", valueName: "url"))
    var prometheus: String?

    @Option(
        help: ArgumentHelp(
            "PromQL that gives one value for each fact (started, confirmed, failed); the devices' reports by default.",
            valueName: "promql"))
    var query: String?

    @Option(help: ArgumentHelp("The share of starts that may fail, 0.1% to 45%; 2% by default.", valueName: "percent"))
    var maxFailures: String?

    @Option(
        help: ArgumentHelp(
            "In place of --max-failures, without statistics: so many failed starts, or such a share.",
            valueName: "n|percent"))
    var allowFailures: String?

    @Option(
        help: ArgumentHelp("The shares of devices, ascending; 1%,5%,25%,100% by default.", valueName: "percent,..."))
    var steps: String?

    @Option(help: ArgumentHelp("How long each step lasts at least; 2h by default.", valueName: "duration"))
    var bake: String?

    @Option(
        help: ArgumentHelp("A start without a verdict for so long has failed; 10m by default.", valueName: "duration"))
    var verdictWithin: String?

    @Option(
        help: ArgumentHelp(
            "What stops a rollout: pause (the default), or revoke, which recalls the release.",
            valueName: "pause|revoke"))
    var onFailure: String?

    @OptionGroup var network: NetworkOptions
    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let version = try version.semantic(settings)
        let plan = try plan(settings)
        let revokes = try revokes(settings)
        let server = try FetchURL(parsing: settings.required("prometheus", prometheus))
        let (feed, channel) = try edit.place(settings)
        var terms = try edit.options(settings)
        let query = VerdictQuery(
            server: server,
            query: try settings.optional("query", query) ?? VerdictQuery.standard(version, channel: channel),
            patience: try PublishTime.duration("verdict-within", verdictWithin, settings) ?? .seconds(600))

        let document = try ChannelEditor.read(channel, in: feed, trust: terms.trust, clock: terms.clock)
        let situation = try GuardDecision.Situation(
            version, in: document, at: terms.clock,
            verdicts: await query.verdicts(by: Wiring.fetcher(network, for: server, settings), at: .now))
        let decision = GuardDecision.decide(situation, by: plan)
        // A person who edits the channel meanwhile knows more than this run.
        terms.expectedSequence = terms.expectedSequence ?? document.sequence
        let report = try decision.change(version, revokes: revokes, situation).map {
            try ChannelEditor(feed: feed, terms).apply($0, to: channel)
        }
        try answer(GuardAnswer(version, situation, decision, report), settings)
    }

    private func answer(_ answer: GuardAnswer, _ settings: Settings) throws {
        if let report = answer.report { ChannelOutput.warn(report) }
        Output.give(
            json: try settings.isOn("json", edit.common.json), afterChange: answer.report != nil, answer.object,
            answer.lines)
        if answer.status != 0 { throw ExitCode(answer.status) }
    }

    private func plan(_ settings: Settings) throws -> GuardDecision.Plan {
        GuardDecision.Plan(
            steps: try steps(settings), bake: try PublishTime.duration("bake", bake, settings) ?? .seconds(7200),
            rule: try rule(settings))
    }

    private func steps(_ settings: Settings) throws -> [Int] {
        let text = try settings.optional("steps", steps) ?? "1%,5%,25%,100%"
        let steps = try text.split(separator: ",", omittingEmptySubsequences: false).map {
            try ChannelEditOptions.share("--steps", String($0)).permille
        }
        guard zip(steps, steps.dropFirst()).allSatisfy({ $0 < $1 }), steps.first != 0 else {
            throw ValidationError("--steps takes shares that ascend, such as 1%,5%,25%,100%.")
        }
        return steps
    }

    private func rule(_ settings: Settings) throws -> GuardRule {
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

    private func revokes(_ settings: Settings) throws -> Bool {
        switch try settings.optional("on-failure", onFailure) ?? "pause" {
        case "pause": return false
        case "revoke": return true
        case let other:
            throw ValidationError("--on-failure takes pause or revoke, not \(UntrustedName.display(other)).")
        }
    }
}

/// What one run of the guard found and did.
private struct GuardAnswer {
    let version: SemanticVersion
    let situation: GuardDecision.Situation
    let decision: GuardDecision
    let report: ChannelReport?

    init(
        _ version: SemanticVersion, _ situation: GuardDecision.Situation, _ decision: GuardDecision,
        _ report: ChannelReport?
    ) {
        self.version = version
        self.situation = situation
        self.decision = decision
        self.report = report
    }

    var status: Int32 {
        switch decision {
        case .advance, .complete: 0
        case .bake, .missing: ExitTable.nothingToDo
        case .stop, .stopByHand, .held: ExitTable.stopped
        case .noData: ExitTable.noData
        }
    }

    private var outcome: String {
        switch decision {
        case .advance: "advanced"
        case .complete: "complete"
        case .bake, .missing: "waiting"
        case .stop, .stopByHand, .held: "stopped"
        case .noData: "noData"
        }
    }

    private var counts: String {
        guard let verdicts = situation.verdicts else { return "no device was counted" }
        return "\(verdicts.good) good starts, \(verdicts.failed) failed"
    }

    private var words: String {
        let share = RolloutShare(permille: situation.rollout)
        return switch decision {
        case .advance(let step): "may go from \(share) to \(RolloutShare(permille: step)) of the devices"
        case .complete: "is complete at \(share) of the devices"
        case .bake(let rest): "stays at \(share) of the devices for \(DurationText(.seconds(rest.components.seconds)))"
        case .missing(let count): "stays at \(share) of the devices until \(count) more good starts are reported"
        case .stop: "is stopped at \(share) of the devices: too many starts fail"
        case .stopByHand:
            "fails too often, and every device may have it. Recall it: clientctl release revoke --version \(version)"
        case .held: "is paused or revoked. When it is mended: clientctl release resume --version \(version)"
        case .noData: "stays at \(share) of the devices: there is no data. Check --prometheus, and that devices report"
        }
    }

    var lines: [String] { ["\(version) \(words) (\(counts))"] + (report.map(ChannelOutput.lines) ?? []) }

    var object: JSONObject {
        var missing: JSONValue = .null
        if case .missing(let count) = decision { missing = .integer(count) }
        return [
            "outcome": .string(outcome), "version": .string(version.description),
            "rollout": .string(RolloutShare(permille: situation.rollout).description),
            "good": situation.verdicts.map { .integer($0.good) } ?? .null,
            "failed": situation.verdicts.map { .integer($0.failed) } ?? .null, "missing": missing,
            "reason": .string(words), "change": report.map { .object(ChannelOutput.object($0)) } ?? .null,
        ]
    }
}
