import ArchiveSource
import ArgumentParser
import BundleCore
import BundlePublish
import BundleFleet
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

            With --guard-key it holds a bad release by a document of its own beside the
            channel's. Devices heed it until a channel key signs the channel anew; then
            the release is paused in the channel itself.

            Whoever can post reports can make a release look good. A channel key needs
            --devices, which bounds what they can say, or --trust-reports. A release for
            groups alone is stopped, and never opened to others.

            Ends with 0 after a step and when the rollout is complete, with 3 while it
            waits, with 60 when the rollout is stopped, with 61 without data, with 10 if
            Prometheus cannot be reached, with 20 if devices would refuse the key.

            Example:
              clientctl release guard --version 1.5.1 --feed feed --channel stable \\
                --channel-key channel.key.pem --prometheus http://127.0.0.1:9090 \\
                --max-failures 2% --steps 1%,5%,25%,100% --bake 2h --devices 2000
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var limits: GuardOptions

    @Option(
        help: ArgumentHelp(
            "PromQL that gives one value for each fact (started, confirmed, failed); the devices' reports by default.",
            valueName: "promql"))
    var query: String?

    @Option(
        help: ArgumentHelp("The shares of devices, ascending; 1%,5%,25%,100% by default.", valueName: "percent,..."))
    var steps: String?

    @Option(help: ArgumentHelp("How long each step lasts at least; 2h by default.", valueName: "duration"))
    var bake: String?

    @Option(
        help: ArgumentHelp(
            "What stops a rollout: pause (the default), or revoke, which recalls the release.",
            valueName: "pause|revoke"))
    var onFailure: String?

    @Option(
        help: ArgumentHelp(
            "How many devices there are: a rollout does not move on where more report than can have the release.",
            valueName: "n"))
    var devices: String?

    @Option(
        help: ArgumentHelp(
            "How many of --devices are in the groups that the release names; they may all have it.", valueName: "n"))
    var groupDevices: String?

    @Flag(help: "Move on without --devices: whoever can post reports can then move the rollout on.")
    var trustReports = false

    @OptionGroup var keys: GuardKeyOptions
    @OptionGroup var network: NetworkOptions
    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let settings = try edit.common.settings()
        let version = try version.semantic(settings)
        let plan = try plan(settings)
        let revokes = try revokes(settings)
        let next = try edit.after.plan(settings)
        let fleet = try fleet(settings)
        let server = try limits.server(settings)
        let (feed, channel) = try edit.place(settings)
        let guards = try keys.guards(edit, settings)
        var terms = try guards.isEmpty ? edit.options(settings) : edit.terms(guards, settings)
        try requireBound(fleet, guards, settings)
        let query = VerdictQuery(
            server: server,
            query: try settings.optional("query", query) ?? VerdictQuery.standard(version, channel: channel),
            timeout: try limits.patience(settings))

        let document = try ChannelEditor.read(channel, in: feed, trust: terms.trust, clock: terms.clock)
        try Self.requireSigners(isGuard: !guards.isEmpty, of: channel, in: feed, terms)
        var situation = try GuardDecision.Situation(
            version, in: document, at: terms.clock,
            verdicts: await query.verdicts(by: Wiring.fetcher(network, for: server, settings), at: .now))
        situation.devices = fleet.devices
        situation.named += fleet.named ?? 0
        let decision = GuardDecision.decide(situation, by: plan)
        // A person who edits the channel meanwhile knows more than this run.
        terms.expectedSequence = terms.expectedSequence ?? document.sequence
        var answer = GuardAnswer(
            version, situation, decision,
            audience: document.releases[try document.index(of: version)].audience(at: terms.clock))
        answer.asksForGroup = situation.namesGroups && fleet.named == nil
        answer.isGuard = !guards.isEmpty
        answer.isDryRun = terms.isDryRun
        if !answer.isGuard {
            answer.report = try decision.change(version, revokes: revokes, situation).map {
                try ChannelEditor(feed: feed, terms).apply($0, to: channel)
            }
        } else if try Self.mustHold(
            decision, situation, plan, isDue: { try HoldEditor(feed, terms).isDue(version, of: channel) })
        {
            answer.hold = try HoldEditor(feed, terms).hold(version, of: channel, reason: situation.reason)
        }
        try await give(answer, next, in: feed, isDryRun: terms.isDryRun, settings)
    }

    /// Whether a guard signs a hold: where it stops the release, and where `isDue` for a release that still fails too often.
    private static func mustHold(
        _ decision: GuardDecision, _ situation: GuardDecision.Situation, _ plan: GuardDecision.Plan,
        isDue: () throws -> Bool
    ) rethrows -> Bool {
        switch decision {
        case .stop: return true
        case .held:
            guard let verdicts = situation.verdicts, plan.rule.finding(verdicts) == .tooMany else { return false }
            return try isDue()
        default: return false
        }
    }

    /// A key that nobody heeds comes out at every run, and not when starts fail.
    private static func requireSigners(
        isGuard: Bool, of channel: String, in feed: any FeedLocation, _ terms: ChannelTerms
    ) throws {
        if isGuard {
            try HoldEditor(feed, terms).requireSigners(of: channel)
        } else {
            try ChannelEditor(feed: feed, terms).requireSigners(of: channel)
        }
    }

    /// More than there are people: sums of such counts stay numbers.
    private static let mostDevices = 1_000_000_000_000

    private func fleet(_ settings: Settings) throws -> (devices: Int?, named: Int?) {
        let devices = try settings.optional("devices", devices).map {
            try settings.integer("devices", $0, atLeast: 1, atMost: Self.mostDevices)
        }
        let named = try settings.optional("group-devices", groupDevices).map {
            try settings.integer("group-devices", $0, atLeast: 0, atMost: Self.mostDevices)
        }
        return (devices, named)
    }

    /// Reports are not signed. A guard's key moves nothing on.
    private func requireBound(
        _ fleet: (devices: Int?, named: Int?), _ guards: [Signer], _ settings: Settings
    ) throws {
        if try !guards.isEmpty || fleet.devices != nil || settings.isOn("trust-reports", trustReports) { return }
        throw ValidationError(
            "Give --devices, how many devices there are. Reports are not signed, and without that number whoever can post them can "
                + "move the rollout on. Give --trust-reports if nobody else can.")
    }

    private func give(
        _ answer: GuardAnswer, _ next: AfterPublish, in feed: any FeedLocation, isDryRun: Bool, _ settings: Settings
    ) async throws {
        let json = try settings.isOn("json", edit.common.json)
        answer.report.map(ChannelOutput.warn)
        let publication =
            answer.report.map { Publication(of: $0, in: feed, about: answer.version) }
            ?? answer.hold.map { Publication(of: $0, in: feed, about: answer.version, isDryRun: isDryRun) }
        if let publication {
            try await next.finish(publication, json, answer.object, answer.lines)
        } else {
            Output.give(json: json, answer.object, answer.lines)
        }
        if answer.status != 0 { throw ExitCode(answer.status) }
    }

    private func plan(_ settings: Settings) throws -> GuardDecision.Plan {
        GuardDecision.Plan(
            steps: try steps(settings), bake: try PublishTime.duration("bake", bake, settings) ?? .seconds(7200),
            rule: try limits.rule(settings))
    }

    private func steps(_ settings: Settings) throws -> [Int] {
        try ChannelEditOptions.shares("--steps", try settings.optional("steps", steps) ?? "1%,5%,25%,100%")
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
    /// Who may have the release, in words.
    let audience: String
    /// Whether nobody said how many devices are in its groups.
    var asksForGroup = false
    /// What a channel key has changed.
    var report: ChannelReport?
    /// What a guard has signed.
    var hold: HoldDocument?
    /// Whether the key of this run can only hold a release.
    var isGuard = false
    /// Whether nothing is written.
    var isDryRun = false

    init(
        _ version: SemanticVersion, _ situation: GuardDecision.Situation, _ decision: GuardDecision, audience: String
    ) {
        self.version = version
        self.situation = situation
        self.decision = decision
        self.audience = audience
    }

    var status: Int32 {
        switch decision {
        case .advance where isGuard: ExitTable.nothingToDo
        case .advance, .complete: 0
        case .bake, .missing, .forGroupsAlone: ExitTable.nothingToDo
        case .stop, .stopByHand, .held: ExitTable.stopped
        case .noData, .tooManyDevices: ExitTable.noData
        }
    }

    private var outcome: String {
        switch decision {
        case .advance where isGuard: "waiting"
        case .advance: "advanced"
        case .complete: "complete"
        case .bake, .missing, .forGroupsAlone: "waiting"
        case .stop, .stopByHand, .held: "stopped"
        case .noData, .tooManyDevices: "noData"
        }
    }

    private var counts: String {
        guard let verdicts = situation.verdicts else { return "no device was counted" }
        return "\(verdicts.confirmed) confirmed starts, \(verdicts.failed) failed"
    }

    private var words: String {
        let share = RolloutPercentage(permille: situation.rollout)
        return switch decision {
        case .advance(let step) where isGuard:
            "may go from \(share) to \(RolloutPercentage(permille: step)) of the devices, by somebody with a channel key"
        case .advance(let step): "may go from \(share) to \(RolloutPercentage(permille: step)) of the devices"
        case .forGroupsAlone:
            "stays at \(audience): the guard opens it to nobody else. To do so, run: clientctl release groups --version \(version)"
        case .complete: "is complete at \(audience)"
        case .bake(let rest): "stays at \(audience) for \(DurationText(.seconds(rest.components.seconds)))"
        case .missing(let count): "stays at \(audience) until \(count) more confirmed starts are reported"
        case .stop: "\(isDryRun ? "would be" : "is") stopped at \(audience): too many starts fail"
        case .stopByHand:
            "fails too often, and every device may have it. Recall it: clientctl release revoke --version \(version)"
        case .held where situation.isRecalled: "is recalled. Publish a higher version: devices install that one"
        case .held:
            "is paused. Publish a higher version; if this one is good after all, run: clientctl release resume --version \(version)"
        case .tooManyDevices(let most) where asksForGroup:
            "stays at \(audience): more devices report it than the \(most) that the draw can give it. Tell how many are in its groups with --group-devices"
        case .tooManyDevices(let most):
            "stays at \(audience): at most \(most) devices can have it, so somebody reports who is none. Have the host ask for tokens"
        case .noData: "stays at \(audience): there is no data. Check --prometheus, and that devices report"
        }
    }

    var lines: [String] { ["\(version) \(words) (\(counts))"] + (report.map(ChannelOutput.lines) ?? []) + holdLines }

    private var holdLines: [String] { hold.map { HoldView.lines($0, isDryRun: isDryRun) } ?? [] }

    var object: JSONObject {
        var missing: JSONValue = .null
        if case .missing(let count) = decision { missing = .integer(count) }
        return [
            "outcome": .string(outcome), "version": .string(version.description),
            "rollout": .string(RolloutPercentage(permille: situation.rollout).description),
            "good": situation.verdicts.map { .integer($0.confirmed) } ?? .null,
            "failed": situation.verdicts.map { .integer($0.failed) } ?? .null, "missing": missing,
            "reason": .string(words), "change": report.map { .object(ChannelOutput.object($0)) } ?? .null,
            "hold": hold.map { .object(HoldView.object($0)) } ?? .null,
        ]
    }
}

/// Who may only hold: the machine that watches needs no key that ships.
struct GuardKeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Private key (PEM) of the trust root's guard, in place of --channel-key: it stops, and takes no other step.",
            valueName: "file"), completion: .file())
    var guardKey: [String] = []

    @Option(
        help: ArgumentHelp("Command that signs in place of --guard-key, as --sign-command does.", valueName: "command"))
    var guardSignCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --guard-sign-command.", valueName: "file"), completion: .file())
    var guardPublic: [String] = []

    /// Empty where a channel key signs.
    func guards(_ edit: ChannelEditOptions, _ settings: Settings) throws -> [Signer] {
        let guards = try Signers.read(
            Signers.Flags(key: "guard-key", command: "guard-sign-command", publicKey: "guard-public"), keys: guardKey,
            commands: guardSignCommand, publicKeys: guardPublic, edit.passphrase, settings)
        if !guards.isEmpty, !edit.channelKey.isEmpty || !edit.signCommand.isEmpty {
            throw ValidationError("Give --guard-key, which only stops a rollout, or --channel-key: one of them.")
        }
        return guards
    }
}

/// A hold, for people and programs.
enum HoldView {
    static func object(_ hold: HoldDocument) -> JSONObject {
        [
            "channel": .string(hold.channel), "sequence": .integer(hold.sequence),
            "issuedAt": .string(hold.issuedAt.description), "expires": .string(hold.expires.description),
            "releases": .array(hold.releases.map { .string($0.description) }), "reason": .string(hold.reason),
        ]
    }

    static func lines(_ hold: HoldDocument, isDryRun: Bool = false) -> [String] {
        [
            "\(isDryRun ? "would hold" : "holds") \(hold.releases.map(\.description).joined(separator: ", ")) in documents of \(hold.channel) up to sequence "
                + "\(hold.sequence), until \(hold.expires): \(UntrustedName.display(hold.reason, limit: 400))"
        ]
    }
}
