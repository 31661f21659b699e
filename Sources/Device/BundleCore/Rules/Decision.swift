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

extension Decision {
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

/// Decides whether a device accepts a release. The outcomes have the order of the rules.
package enum AcceptanceRule {
    /// Returns the decision about `offer`. A nil `appId` accepts the releases of every application.
    package static func decide(
        _ offer: some ReleaseOffer, inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        let app = appVerdict(offer, appId: appId)
        let shells = offer.shells.compatibility(with: shell)
        let block = inventory.ledger.block(on: .archive(offer.version))
        // A recalled release still has a signed manifest.
        let withdrawal = inventory.ledger.feed.withdrawal(of: offer.version)
        let newest = SelectionRule.newestUsable(inventory, shell: shell)?.version.semantic
        let isNewer = newest.map { offer.version > $0 } ?? true

        let outcomes = [
            Decision.Outcome(rule: "application", passed: app == nil, detail: appDetail(offer, appId: appId)),
            Decision.Outcome(
                rule: "shell", passed: shells == .compatible, detail: shellDetail(offer.shells, shell: shell)),
            Decision.Outcome(
                rule: "blocked", passed: block == nil && withdrawal == nil,
                detail: block.map { "blocked since \($0.since): \($0.reason)" } ?? withdrawal?.description
                    ?? "not blocked on this device"),
            Decision.Outcome(
                rule: "newer", passed: isNewer,
                detail: newest.map { "offered \(offer.version), newest usable here \($0)" }
                    ?? "offered \(offer.version), nothing usable is installed"),
        ]
        let verdict: Decision.Verdict
        if let app {
            verdict = app
        } else if shells != .compatible {
            verdict = .incompatible(shells)
        } else if let block {
            verdict = .blocked(block)
        } else if let withdrawal {
            verdict = .withdrawn(withdrawal)
        } else if let newest, !isNewer {
            verdict = .upToDate(newest: .installed(.archive(newest)))
        } else {
            verdict = .install
        }
        return Decision(verdict: verdict, outcomes: outcomes)
    }

    private static func appVerdict(_ offer: some ReleaseOffer, appId: String?) -> Decision.Verdict? {
        WrongApplication(of: offer.appId, on: appId).map { .wrongApp(expected: $0.expected, found: $0.found) }
    }

    private static func appDetail(_ offer: some ReleaseOffer, appId: String?) -> String {
        guard let appId else { return "this device names no application" }
        return "device \(appId), offer \(offer.appId ?? "names none")"
    }

    private static func shellDetail(_ shells: ShellRange, shell: SemanticVersion) -> String {
        let maximum = shells.maximum.map { "at most \($0)" } ?? "no upper limit"
        return "shell \(shell), needed at least \(shells.minimum), \(maximum)"
    }
}
