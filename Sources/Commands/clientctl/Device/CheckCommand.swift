import ArgumentParser
import BundleCore
import BundleValues
import BundleShell

struct CheckCommand: AsyncParsableCommand, RequiringCommand {
    static let alsoRequired = UpdateOptions.required
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Show what `install` would do, and why. Changes nothing.",
        discussion: """
            The exit status is 0 if a release is available, and 3 if there is nothing to
            do. --explain also shows why every other release of a channel was skipped,
            and which origins the installed client that is shown next declares.

            Examples:
              clientctl check --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/clientctl
              clientctl check --trust trust.json --explain \\
                --channel https://updates.example.com/channels/stable.json \\
                --store /var/lib/clientctl
              clientctl check --meteor https://app.example.com/ \\
                --store /var/lib/clientctl \\
                --seed /usr/share/kiosk/www
            """)

    @Flag(help: "Also show why every other release of the channel was skipped, and the origins of the next client.")
    var explain = false

    @OptionGroup var update: UpdateOptions
    @OptionGroup var origins: OriginOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        try Wiring.requireSeed(update)
        let next = try origins.next(update)
        var answers: [CheckOutput] = []
        var failure: (any Error)?
        // A failure of one source does not stop the others.
        for source in try Wiring.sources(update, report: UpdateObserver()) {
            do { answers.append(try CheckOutput(try await source.check(explaining: explain))) } catch {
                failure = failure ?? error
            }
        }
        if let failure {
            if answers.isEmpty { throw failure }
            if !common.json { Output.give(json: false, [:], lines: answers.flatMap(\.lines)) }
            throw FailureWithOutput(
                failure: UpdateFailure(failure), members: ["sources": .array(answers.map { .object($0.object) })])
        }
        // The first source with something to do gives the outcome of all sources.
        guard let result = answers.first(where: \.isToDo) ?? answers.first else { return }
        var object = result.object
        if answers.count > 1 { object["sources"] = .array(answers.map { .object($0.object) }) }
        if explain { object["origins"] = next?.value ?? .null }
        Output.give(
            json: common.json, object, lines: answers.flatMap(\.lines) + (explain ? next?.lines ?? [] : []))
        if !result.isToDo { throw ExitCode(ExitTable.nothingToDo) }
    }
}

/// The result of `check` for one source.
struct CheckOutput {
    private let findings: CheckFindings
    private var version: ClientVersion { findings.offered }
    private var decision: Decision { findings.decision }
    private var others: [Decision.Outcome] { findings.others }

    /// Throws if the release is unsuitable or is for another application.
    init(_ findings: CheckFindings) throws {
        self.findings = findings
        switch decision.verdict {
        case .wrongApp, .unsuitable:
            if let failure = decision.verdict.failure(of: version) { throw failure }
        default: break
        }
    }

    /// Whether `install` would change something.
    var isToDo: Bool {
        switch decision.verdict {
        case .install: findings.wait == nil
        case .choose: true
        default: false
        }
    }

    private var word: String {
        switch decision.verdict {
        case .install where findings.wait != nil: "waiting"
        case .install, .choose: "available"
        case .upToDate: findings.retry == nil ? "upToDate" : "waiting"
        case .incompatible, .wrongApp, .unsuitable: "incompatible"
        case .blocked, .withdrawn: "blocked"
        case .notInRollout: "notInRollout"
        }
    }

    /// The outcome for people.
    private var words: String {
        switch word {
        case "upToDate": "up to date"
        case "notInRollout": "not in the rollout"
        default: word
        }
    }

    var object: JSONObject {
        [
            "outcome": .string(word), "version": .string(version.description),
            "source": .string(version.source.rawValue),
            "route": .string(orNull: findings.plan?.route.word),
            "routeReason": .string(orNull: findings.plan?.route.reason.rawValue),
            "routeDetail": .string(orNull: findings.plan?.route.detail),
            "bytesToDownload": findings.plan?.bytes.map { .integer($0) } ?? .null,
            "secondsToDownload": seconds.map { .integer($0) } ?? .null,
            "waiting": .string(orNull: findings.wait?.reason.rawValue ?? findings.retry.map { _ in "trial" }),
            "waitingDetail": .string(orNull: wait),
            "rules": .array(
                (decision.outcomes + others).map {
                    .object([
                        "rule": .string($0.rule), "passed": .bool($0.passed), "detail": .string($0.detail),
                    ])
                }),
        ]
    }

    /// The shortest time of the download at the limited rate; nil without a limit.
    private var seconds: Int? {
        guard let rate = findings.rate, let bytes = findings.plan?.bytes else { return nil }
        return (bytes + rate - 1) / rate
    }

    /// The reason why the release waits; nil if it does not wait.
    private var wait: String? { findings.wait?.description ?? findings.retry.map { "it \($0.sequel): \($0)" } }

    var lines: [String] {
        var lines = ["\(words): \(version)"]
        if let plan = findings.plan { lines.append(line(plan)) }
        if let wait { lines.append("  waits: \(wait)") }
        for outcome in decision.outcomes + others {
            lines.append("  \(outcome.passed ? "yes " : "no  ")  \(outcome.rule): \(outcome.detail)")
        }
        return lines
    }

    private func line(_ plan: PlannedRoute) -> String {
        let why = plan.route.detail.map { ", \($0)" } ?? ""
        let size = plan.bytes.map { ": \(ByteCount(bytes: $0))" } ?? ""
        let time = seconds.map { ", at least \(DurationText(.seconds($0)))" } ?? ""
        return "  download: \(plan.route.word) (\(plan.route.reason.rawValue)\(why))\(size)\(time)"
    }
}
