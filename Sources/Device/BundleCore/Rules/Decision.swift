import BundleFormats
package import BundleValues

/// The verdict on a source's offer, with the outcome of every rule. The first rule that did not pass decides.
package struct Decision: Sendable, Equatable {
    /// The action for an offer, and its reason.
    package enum Verdict: Sendable, Equatable {
        /// The device does not have the version and installs it.
        case install
        /// The device has the version, which becomes the next to run.
        case choose(ClientName)
        /// The offer is not newer than `newest`.
        case upToDate(newest: ClientName)
        case incompatible(ShellCompatibility)
        /// The version is blocked on this device.
        case blocked(Ledger.Block)
        /// The channel does not allow the version to run.
        case withdrawn(FeedMemory.Withdrawal)
        /// The rollout excludes this device for now, or is paused. `newest` is the best client of the device.
        case notInRollout(newest: ClientName, detail: String)
        /// The offer belongs to another application.
        case wrongApp(expected: String, found: String?)
        /// This device must not run the Meteor bundle.
        case unsuitable(UpdateFailure)
    }

    /// The outcome of one rule, as `check` prints it.
    package struct Outcome: Sendable, Equatable {
        package let rule: String
        package let passed: Bool
        /// The values that the rule compared.
        package let detail: String

        package init(rule: String, passed: Bool, detail: String) {
            self.rule = rule
            self.passed = passed
            self.detail = detail
        }
    }

    package let verdict: Verdict
    /// The outcomes of all rules, in their order.
    package let outcomes: [Outcome]

    package init(verdict: Verdict, outcomes: [Outcome]) {
        self.verdict = verdict
        self.outcomes = outcomes
    }
}

/// The answer of one rule about a release.
package enum RuleAnswer {
    /// There is no objection. The text has the values that the rule compared.
    case passed(() -> String)
    /// The verdict that follows if no earlier rule objects, and the reason for it.
    case objection(Decision.Verdict, String)

    /// The verdict of an objection; nil for a rule that passed.
    package var verdict: Decision.Verdict? {
        if case .objection(let verdict, _) = self { verdict } else { nil }
    }

    /// Returns the answer with this reason for its objection.
    package func because(_ reason: @autoclosure () -> String) -> RuleAnswer {
        if case .objection(let verdict, _) = self { .objection(verdict, reason()) } else { self }
    }

    /// Returns the outcome under the name `rule`.
    package func outcome(of rule: String) -> Decision.Outcome {
        switch self {
        case .passed(let detail): Decision.Outcome(rule: rule, passed: true, detail: detail())
        case .objection(_, let reason): Decision.Outcome(rule: rule, passed: false, detail: reason)
        }
    }
}

extension Decision {
    /// Decides by rules in their order: the first objection is the verdict, and without one `verdict` is.
    package init(_ answers: [(rule: String, answer: RuleAnswer)], otherwise verdict: Verdict) {
        self.init(
            verdict: answers.lazy.compactMap(\.answer.verdict).first ?? verdict,
            outcomes: answers.map { $0.answer.outcome(of: $0.rule) })
    }

    /// The version of the shell that the offer needs, if an older shell is the only reason against it.
    package var neededShell: SemanticVersion? {
        guard case .incompatible(.shellTooOld(let minimum)) = verdict else { return nil }
        return outcomes.allSatisfy { $0.passed || $0.rule == "shell" } ? minimum : nil
    }
}

extension Decision.Verdict {
    /// The client that is at least as good as the offer, if the device has nothing to do.
    var newest: ClientName? {
        switch self {
        case .upToDate(let newest), .notInRollout(let newest, _): newest
        default: nil
        }
    }

    /// Returns the refusal of `version`; nil for a verdict that is not an error.
    package func failure(of version: ClientVersion) -> UpdateFailure? {
        switch self {
        case .install, .choose, .upToDate, .notInRollout: nil
        case .withdrawn(.belowFloor(let floor)):
            UpdateFailure(
                .rollbackAttempt, subject: version.description,
                "Version \(version) is refused: it is below \(floor), the lowest that its channel allows. Publish a newer one."
            )
        case .withdrawn(let withdrawal):
            UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is refused: it is \(withdrawal). Wait for another release.")
        case .incompatible(.compatible): nil
        case .incompatible(.shellTooOld(let minimum)):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                "Version \(version) \(ShellCompatibility.shellTooOld(minimum: minimum)): update the shell, then try again.",
                neededShell: minimum)
        case .incompatible(.shellTooNew(let maximum)):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                "Version \(version) \(ShellCompatibility.shellTooNew(maximum: maximum)): wait for a release for this shell."
            )
        case .blocked(let block):
            UpdateFailure(
                .versionBlocked, subject: version.description, Self.text(of: block, on: version))
        case .wrongApp(let expected, let found):
            WrongApplication(expected: expected, found: found).failure(of: version)
        case .unsuitable(let failure): failure
        }
    }

    /// Meteor's clients match the first words of the message (METEOR section 3.2).
    private static func text(of block: Ledger.Block, on version: ClientVersion) -> String {
        let start = version.source == .meteor ? "Skipping downloading blacklisted version: version" : "Version"
        return "\(start) \(version) is blocked on this device since \(block.since): \(block.reason). "
            + block.advice
    }
}

/// The rules about any release, and the decision about one of a flat manifest.
package enum AcceptanceRule {
    /// Returns the decision about `offer`. A nil `appId` accepts the releases of every application.
    package static func decide(
        _ offer: some ReleaseOffer, inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        let newest = SelectionRule.newestUsable(inventory, shell: shell)
        return Decision(
            [
                ("application", application(offer.appId, on: appId)),
                ("shell", self.shell(offer.shells, on: shell)),
                ("blocked", blocked(offer.version, in: inventory)),
                ("newer", newer(offer.version, than: newest)),
            ], otherwise: .install)
    }

    package static func application(_ found: String?, on device: String?) -> RuleAnswer {
        if let wrong = WrongApplication(of: found, on: device) {
            return .objection(.wrongApp(expected: wrong.expected, found: found), detail(found, device))
        }
        return .passed { detail(found, device) }
    }

    private static func detail(_ found: String?, _ device: String?) -> String {
        device.map { "device \($0), offer \(found ?? "names none")" } ?? "this device names no application"
    }

    package static func shell(_ shells: ShellRange, on shell: SemanticVersion) -> RuleAnswer {
        let compatibility = shells.compatibility(with: shell)
        let maximum = shells.maximum.map { "at most \($0)" } ?? "no upper limit"
        let detail = "shell \(shell), needed at least \(shells.minimum), \(maximum)"
        return compatibility == .compatible ? .passed { detail } : .objection(.incompatible(compatibility), detail)
    }

    /// A recalled release still has a signed manifest.
    private static func blocked(_ version: SemanticVersion, in inventory: Inventory) -> RuleAnswer {
        let answer = blocked(.archive(version), in: inventory)
        if answer.verdict == nil, let withdrawal = inventory.ledger.feed.withdrawal(of: version) {
            return .objection(.withdrawn(withdrawal), withdrawal.description)
        }
        return answer
    }

    package static func blocked(_ version: ClientVersion, in inventory: Inventory) -> RuleAnswer {
        guard let block = inventory.ledger.block(on: version) else { return .passed { "not blocked on this device" } }
        return .objection(.blocked(block), "blocked since \(block.since): \(block.reason)")
    }

    package static func newer(_ version: SemanticVersion, than newest: InstalledBundle?) -> RuleAnswer {
        guard let newest, let here = newest.version.semantic else {
            return .passed { "offered \(version), nothing usable is installed" }
        }
        let detail = "offered \(version), newest usable here \(here)"
        return version > here ? .passed { detail } : .objection(.upToDate(newest: newest.name), detail)
    }
}
