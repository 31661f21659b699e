import ArchiveChannel
import ArgumentParser
import BundleCore
import BundleSigning

/// `clientctl check`.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells what install would do, with every rule's outcome. Changes nothing.",
        discussion: """
            Exit status 0: a release is available; 3: nothing to do.

            Example:
              clientctl check --trust release.pub.pem \\
                --manifest https://updates.example.com/manifest.json \\
                --store /var/lib/kiosk --shell-version 1.2.0
            """)

    @OptionGroup var update: UpdateOptions
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let settings = try common.settings()
        try Wiring.requireSeed(update, settings)
        let updater = try Wiring.updater(update, settings) { _ in }
        let (offer, decision) = try await updater.check()
        if case .wrongApp = decision.verdict, let failure = decision.verdict.failure(of: offer.version) {
            throw failure
        }
        let signature = AcceptanceRule.Outcome(
            rule: "signature", passed: true, detail: "\(offer.key.algorithm.rawValue) key \(offer.key.id)")
        let outcomes = [signature] + decision.outcomes
        Answer.give(
            json: try settings.isOn("json", common.json),
            [
                "outcome": .string(word(decision.verdict)),
                "version": .string(offer.version.description),
                "rules": .array(
                    outcomes.map {
                        .object([
                            "rule": .string($0.rule), "passed": .bool($0.passed), "detail": .string($0.detail),
                        ])
                    }),
            ],
            ["\(word(decision.verdict)): \(offer.version)"]
                + outcomes.map { "  \($0.passed ? "yes" : "no ")  \($0.rule): \($0.detail)" })
        if decision.verdict != .install { throw ExitCode(ExitTable.nothingToDo) }
    }

    private func word(_ verdict: AcceptanceRule.Verdict) -> String {
        switch verdict {
        case .install: "available"
        case .upToDate: "upToDate"
        case .incompatible, .wrongApp: "incompatible"
        case .blocked: "blocked"
        }
    }
}
