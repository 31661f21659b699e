import BundleFormats
import ArgumentParser
import BundleCore
import BundlePublish
import BundleFleet
import BundleValues

struct FleetGuard: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = [
        RequiredFlags.Need(
            "channel-key <file>", "sign-command <command>", "guard-key <file>", "guard-sign-command <command>")
    ]
    static let configuration = CommandConfiguration(
        commandName: "guard",
        abstract: "Advance a rollout while few starts fail; stop it when too many do.",
        discussion: """
            Run it from cron, a timer or CI. Each run reads from Prometheus how many starts
            were confirmed and how many failed, and takes at most one step. A paused
            release stays paused until an operator resumes it. Without data, the guard
            takes no step.

            It stops a rollout when more starts fail than a rate of --max-failures can
            explain. At most 1 of 100 rollouts is a false alarm, at any number of runs. It
            advances a rollout when it can rule out a rate twice as high. Without a
            failure, this takes 149 confirmed starts at 1%, 74 at 2% and 29 at 5%. If
            --devices shows that a step has too few devices for this, the guard advances
            when most of them, and at least 3, started the release without a failure.

            With --guard-key it signs a hold, a file beside the channel file that pauses
            the release. Devices follow the hold until a channel key signs the channel
            again. That change pauses the release in the channel file.

            Anyone who can post reports can make a release look good. With a channel key,
            the guard needs --devices, which limits the reports, or --trust-reports. It can
            stop a release that is only for groups, but never opens it to other devices.

            The exit status is 0 after a step or when the rollout is complete, 3 while it
            waits, 60 if the rollout is stopped, 61 without data, 10 if Prometheus cannot
            be reached, and 20 if devices would reject the key.

            Example:
              clientctl fleet guard --version 1.5.1 --feed feed --channel stable \\
                --channel-key channel.key.pem --prometheus http://127.0.0.1:9090 \\
                --max-failures 2% --steps 1%,5%,25%,100% --bake 2h --devices 2000
            """)

    @OptionGroup var version: VersionOption
    @OptionGroup var limits: GuardOptions

    @Option(
        help: ArgumentHelp(
            "PromQL with one value for each event (started, confirmed, failed). (default: the reports of devices)",
            valueName: "promql"))
    var query: String?

    @Option(
        help: ArgumentHelp("Ascending percentages of devices. (default: 1%,5%,25%,100%)", valueName: "percent,..."))
    var steps: String?

    @Option(help: ArgumentHelp("Minimum duration of each step. (default: 2h)", valueName: "duration"))
    var bake: String?

    @Option(
        help: ArgumentHelp(
            "How to stop a rollout: pause or recall the release. (default: pause)",
            valueName: "pause|recall"), completion: .list(["pause", "recall"]))
    var onFailure: String?

    @Option(
        help: ArgumentHelp(
            "(required with a channel key, or --trust-reports) Number of devices. A rollout does not advance if more devices report the release than can have it.",
            valueName: "n"))
    var devices: String?

    @Option(
        help: ArgumentHelp(
            "Number of those devices in the groups of the release, which can all have it.", valueName: "n"))
    var groupDevices: String?

    @Flag(help: "Advance without --devices. Anyone who can post reports can then advance the rollout.")
    var trustReports = false

    @Option(
        help: ArgumentHelp(
            "Run this command after a step, and while a release that every device can have fails too often. It runs without a shell, for at most 30s, with GUARD_OUTCOME, GUARD_VERSION, GUARD_CHANNEL and GUARD_REASON.",
            valueName: "command"))
    var onDecision: String?

    @OptionGroup(title: "Signing") var keys: GuardKeyOptions
    @OptionGroup(title: "Network") var network: NetworkOptions
    @OptionGroup var edit: ChannelEditOptions

    func run() async throws {
        let version = try version.semantic()
        let plan = try plan()
        let recalls = try recalls()
        let next = try edit.after.plan()
        let hook = try HookCommand(onDecision, of: "on-decision")
        let fleet = try fleet()
        let server = try limits.server()
        let (feed, channel) = try edit.place()
        let guards = try keys.guards(edit)
        var terms = try guards.isEmpty ? edit.options() : edit.terms(guards)
        try requireBound(fleet, guards: guards)
        let query = VerdictQuery(
            server: server, query: query ?? VerdictQuery.standard(version, channel: channel), channel: channel,
            timeout: try limits.timeout())

        let document = try ChannelEditor.read(channel, in: feed, trust: terms.trust, clock: terms.clock)
        try Self.requireSigners(isGuard: !guards.isEmpty, of: channel, in: feed, terms)
        var situation = try GuardDecision.Situation(
            version, in: document, at: terms.clock,
            counted: await query.counted(by: Wiring.fetcher(network, for: server), at: .now))
        situation.devices = fleet.devices
        situation.named += fleet.named ?? 0
        let decision = GuardDecision.decide(situation, by: plan)
        // The run fails if an operator changed the channel after it was read.
        terms.expectedSequence = terms.expectedSequence ?? document.sequence
        var answer = GuardAnswer(
            version, situation: situation, decision: decision,
            audience: document.releases[try document.index(of: version)].audience(at: terms.clock))
        answer.asksForGroup = situation.namesGroups && fleet.named == nil
        answer.isGuard = !guards.isEmpty
        answer.isDryRun = terms.isDryRun
        answer.rule = plan.rule
        if !answer.isGuard {
            answer.report = try decision.change(version, recalls: recalls, in: situation).map {
                try ChannelEditor(feed: feed, terms).apply($0, to: channel)
            }
        } else if try Self.mustHold(
            decision, situation: situation, plan: plan,
            isDue: { try HoldEditor(feed, terms: terms).isDue(version, of: channel) })
        {
            answer.hold = try HoldEditor(feed, terms: terms).hold(version, of: channel, reason: situation.reason)
        }
        if answer.isNews { await hook?.run(with: answer.facts(channel: channel)) }
        try await give(answer, next: next, in: feed, isDryRun: terms.isDryRun)
    }

    /// Whether a guard signs a hold: if it stops the release, or if a hold `isDue` for a release that still fails too often.
    private static func mustHold(
        _ decision: GuardDecision, situation: GuardDecision.Situation, plan: GuardDecision.RolloutPlan,
        isDue: () throws -> Bool
    ) rethrows -> Bool {
        switch decision {
        case .stop: return true
        case .held:
            guard let verdicts = situation.verdicts,
                plan.rule.finding(verdicts, of: situation.expectedDevices) == .tooMany
            else { return false }
            return try isDue()
        default: return false
        }
    }

    /// Throws if devices would reject the keys. Each run checks this, so the error does not first appear when starts fail.
    private static func requireSigners(
        isGuard: Bool, of channel: String, in feed: any FeedLocation, _ terms: ChannelTerms
    ) throws {
        if isGuard {
            try HoldEditor(feed, terms: terms).requireSigners(of: channel)
        } else {
            try ChannelEditor(feed: feed, terms).requireSigners(of: channel)
        }
    }

    /// The largest number of devices, so that sums do not overflow.
    private static let mostDevices = 1_000_000_000_000

    private func fleet() throws -> (devices: Int?, named: Int?) {
        let devices = try FlagValue.integer(devices, of: "devices", atLeast: 1, atMost: Self.mostDevices)
        let named = try FlagValue.integer(groupDevices, of: "group-devices", atLeast: 0, atMost: Self.mostDevices)
        return (devices, named)
    }

    /// Throws `ValidationError` if a channel key signs and no flag limits the reports, which are not signed. A guard key cannot advance a
    /// rollout.
    private func requireBound(_ fleet: (devices: Int?, named: Int?), guards: [Signer]) throws {
        if !guards.isEmpty || fleet.devices != nil || trustReports { return }
        throw ValidationError(
            "Give --devices, the number of devices: reports are not signed, and without it, anyone who can post reports can advance the "
                + "rollout. Give --trust-reports if only trusted devices can post them.")
    }

    private func give(
        _ answer: GuardAnswer, next: AfterPublish, in feed: any FeedLocation, isDryRun: Bool
    ) async throws {
        answer.report.map(ChannelOutput.warn)
        let publication =
            answer.report.map { Publication(of: $0, in: feed, about: answer.version) }
            ?? answer.hold.map { Publication(of: $0, in: feed, about: answer.version, isDryRun: isDryRun) }
        if let publication {
            try await next.finish(publication, json: edit.common.json, object: answer.object, lines: answer.lines)
        } else {
            Output.give(json: edit.common.json, answer.object, lines: answer.lines)
        }
        if answer.status != 0 { throw ExitCode(answer.status) }
    }

    private func plan() throws -> GuardDecision.RolloutPlan {
        GuardDecision.RolloutPlan(
            steps: try ChannelEditOptions.shares("--steps", text: steps ?? "1%,5%,25%,100%"),
            bake: try PublishTime.duration(bake, of: "bake") ?? .seconds(7200),
            rule: try limits.rule())
    }

    private func recalls() throws -> Bool {
        switch onFailure ?? "pause" {
        case "pause": return false
        case "recall": return true
        case let other:
            throw ValidationError("--on-failure takes pause or recall, not \(UntrustedName.display(other)).")
        }
    }
}

/// The keys of a guard, which can only hold releases. The machine that runs the guard then needs no key that can publish.
struct GuardKeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Private key (PEM) of a guard in the trust root, instead of --channel-key. It can only stop a rollout.",
            valueName: "file"), completion: .file())
    var guardKey: [String] = []

    @Option(
        help: ArgumentHelp("Command that signs instead of --guard-key, as --sign-command does.", valueName: "command"))
    var guardSignCommand: [String] = []

    @Option(help: ArgumentHelp("Public key (PEM) of --guard-sign-command.", valueName: "file"), completion: .file())
    var guardSignPublicKey: [String] = []

    /// Returns the signers of the guard; none if a channel key signs.
    func guards(_ edit: ChannelEditOptions) throws -> [Signer] {
        let guards = try Signers.read(
            Signers.Flags(key: "guard-key", command: "guard-sign-command", publicKey: "guard-sign-public-key"),
            keys: guardKey, commands: guardSignCommand, publicKeys: guardSignPublicKey, passphrase: edit.passphrase)
        if !guards.isEmpty, CommandLineFlags.containAny(of: "channel-key", "sign-command") {
            throw ValidationError("Give --guard-key, which only stops a rollout, or --channel-key, not both.")
        }
        return guards
    }
}
