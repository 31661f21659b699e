import BundleFormats
import BundlePublish
import BundleFleet
import BundleValues

struct GuardAnswer {
    let version: SemanticVersion
    let situation: GuardDecision.Situation
    let decision: GuardDecision
    /// The devices that can have the release, in words.
    let audience: String
    /// Whether the release has groups and `--group-devices` is missing.
    var asksForGroup = false
    /// The change that a channel key signed.
    var report: ChannelReport?
    /// The hold that a guard key signed.
    var hold: HoldDocument?
    /// Whether a guard key signs, which can only hold a release.
    var isGuard = false
    var isDryRun = false
    var rule = GuardRule.rate(permille: GuardRule.standardRate)

    init(
        _ version: SemanticVersion, situation: GuardDecision.Situation, decision: GuardDecision, audience: String
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
        case .bake, .missing, .notYet, .forGroupsAlone: ExitTable.nothingToDo
        case .stop, .stopByHand, .held: ExitTable.stopped
        case .noData, .tooManyDevices: ExitTable.noData
        }
    }

    private var outcome: String {
        switch decision {
        case .advance where isGuard: "waiting"
        case .advance: "advanced"
        case .complete: "complete"
        case .bake, .missing, .notYet, .forGroupsAlone: "waiting"
        case .stop, .stopByHand, .held: "stopped"
        case .noData, .tooManyDevices: "noData"
        }
    }

    /// Whether the run changed the rollout, or a person has to.
    var isNews: Bool {
        if isDryRun { return false }
        return decision == .stopByHand || hold != nil || report.map { $0.outcome == .changed } == true
    }

    /// The environment variables of the command of `--on-decision`.
    func facts(channel: String) -> [String: String] {
        [
            "GUARD_OUTCOME": outcome, "GUARD_VERSION": version.description, "GUARD_CHANNEL": channel,
            "GUARD_REASON": "\(version) \(words) (\(counts))",
        ]
    }

    private var counts: String {
        guard let verdicts = situation.verdicts else { return "no device was counted" }
        return "\(verdicts.confirmed) confirmed starts, \(verdicts.failed) failed"
    }

    private var words: String {
        let share = RolloutPercentage(permille: situation.rollout)
        return switch decision {
        case .advance(let step) where isGuard:
            "can go from \(share) to \(RolloutPercentage(permille: step)) of the devices, which needs a channel key"
        case .advance(let step): "can go from \(share) to \(RolloutPercentage(permille: step)) of the devices"
        case .forGroupsAlone:
            "stays at \(audience): the guard does not open it to other devices. To do so, run: clientctl release target --version \(version)"
        case .complete: "is complete at \(audience)"
        case .bake(let rest): "stays at \(audience) for \(DurationText(.seconds(rest.components.seconds)))"
        case .missing(let count): "stays at \(audience) until \(starts(count)) reported\(few)"
        case .notYet where situation.verdicts == nil:
            "stays at \(audience): no device has reported \(version) yet\(few)"
        case .notYet:
            "stays at \(audience): devices started \(version), and none has reported yet whether it works\(few)"
        case .stop: "\(isDryRun ? "would be" : "is") stopped at \(audience): too many starts fail"
        case .stopByHand:
            "fails too often, and every device can have it. Recall it: clientctl release recall --version \(version)"
        case .held where situation.isRecalled: "is recalled. Publish a higher version: devices install that one"
        case .held:
            "is paused. Publish a higher version; if this one works, run: clientctl release resume --version \(version)"
        case .tooManyDevices(let most) where asksForGroup:
            "stays at \(audience): more devices report it than the \(most) that the rollout allows. Give the number of devices in its groups with --group-devices"
        case .tooManyDevices(let most):
            "stays at \(audience): at most \(most) devices can have it, so some reports are false. Make the host require tokens"
        case .noData where situation.counted == .restarted:
            "stays at \(audience): a counter in Prometheus restarted. Run the guard again after the time of --verdict-within"
        case .noData: "stays at \(audience): Prometheus has no reports. Check its address, and that devices report"
        }
    }

    private func starts(_ count: Int) -> String {
        count == 1 ? "1 more confirmed start is" : "\(count) more confirmed starts are"
    }

    /// The number of devices that can report, if it is too small for statistics or for the missing starts.
    private var few: String {
        guard let devices = situation.devices, let expected = situation.expectedDevices else { return "" }
        var text = ". About \(expected) of \(devices) devices \(expected == 1 ? "has" : "have") it"
        switch rule {
        case .rate(let permille) where GuardRule.areFew(expected, permille: permille):
            let needed = GuardRule.missing(FirstVerdicts(confirmed: 0, failed: 0), below: 2 * Double(permille) / 1000)
            let share = RolloutPercentage(permille: permille)
            text +=
                ", too few to prove a failure rate (\(share) takes \(needed) starts): \(GuardRule.most(of: expected)) must start it, and at most \(share) may fail"
        case .rate: return ""
        case .simple: text += ": \(GuardRule.most(of: expected)) must report it"
        }
        guard case .missing(let count) = decision, count + (situation.verdicts?.count ?? 0) > expected else {
            return text
        }
        return text + ". So many are unlikely to report. To go on, run: clientctl release rollout --version \(version)"
    }

    var lines: [String] {
        ["\(version) \(words) (\(counts))"] + (report.map { ChannelOutput.lines($0) } ?? []) + holdLines
    }

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
            "\(isDryRun ? "would hold" : "holds") \(hold.releases.map(\.description).joined(separator: ", ")) in channel \(hold.channel) up to sequence "
                + "\(hold.sequence), until \(hold.expires): \(UntrustedName.display(hold.reason, limit: 400))"
        ]
    }
}
