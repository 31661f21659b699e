package import BundleValues

/// What a source's rule says about an offer: the verdict with every rule's answer; the first rule that is not passed decides.
package struct Decision: Sendable, Equatable {
    /// What to do with an offer, and why.
    package enum Verdict: Sendable, Equatable {
        /// The device does not have it: take it.
        case install
        /// The device has it, and it is to run next.
        case choose(ClientName)
        /// Nothing newer; `newest` is the client that stands in its way.
        case upToDate(newest: ClientName)
        /// Not for this shell.
        case incompatible(ShellCompatibility)
        /// Must not run on this device.
        case blocked(Ledger.Block)
        /// The channel keeps it from running.
        case withdrawn(FeedMemory.Withdrawal)
        /// Not for this device yet: its rollout leaves the device out, or is paused; `newest` is the best that it has.
        case notInRollout(newest: ClientName, detail: String)
        /// Belongs to another application.
        case wrongApp(expected: String, found: String?)
        /// A Meteor bundle that this device must not take.
        case unsuitable(UpdateFailure)
    }

    /// One rule's answer, for people and for `check`.
    package struct Outcome: Sendable, Equatable {
        /// The rule's name.
        package let rule: String
        /// Whether the offer passed it.
        package let passed: Bool
        /// The facts it compared.
        package let detail: String

        /// States an answer.
        package init(rule: String, passed: Bool, detail: String) {
            self.rule = rule
            self.passed = passed
            self.detail = detail
        }
    }

    /// What to do.
    package let verdict: Verdict
    /// Every rule in order.
    package let outcomes: [Outcome]

    /// States a decision.
    package init(verdict: Verdict, outcomes: [Outcome]) {
        self.verdict = verdict
        self.outcomes = outcomes
    }
}

extension Decision {
    /// The shell that the offer needs, where it is newer than what runs here and nothing but the age of the shell speaks against it.
    package var neededShell: SemanticVersion? {
        guard case .incompatible(.shellTooOld(let minimum)) = verdict else { return nil }
        return outcomes.allSatisfy { $0.passed || $0.rule == "shell" } ? minimum : nil
    }
}

extension Decision.Verdict {
    /// The client that stands in the offer's way, where nothing is to be done.
    var newest: ClientName? {
        switch self {
        case .upToDate(let newest), .notInRollout(let newest, _): newest
        default: nil
        }
    }

    /// The verdict as a refusal of `version`; nil for those that are answers rather than failures.
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
        case .wrongApp(let expected, nil):
            UpdateFailure(
                .appMismatch, subject: "",
                "Version \(version) names no application, and this device runs \(expected): it was published without --app-id. "
                    + "Wait for a release that names it.")
        case .wrongApp(let expected, let found?):
            UpdateFailure(
                .appMismatch, subject: found,
                "Version \(version) is for \(found), and this device runs \(expected): check the feed's address. Another application "
                    + "needs a store of its own (--store).")
        case .unsuitable(let failure): failure
        }
    }

    /// Meteor's clients know the words in front (METEOR section 3.2).
    private static func text(of block: Ledger.Block, on version: ClientVersion) -> String {
        let told = "Version \(version) is blocked on this device since \(block.since): \(block.reason)"
        return version.source == .meteor ? "Skipping downloading blacklisted version. \(told)" : told
    }
}

/// Take this release? A pure rule; its order is the order of the outcomes.
package enum AcceptanceRule {
    /// Decides about `offer` on a device with `inventory`, `shell` and, when it has one, `appId`.
    package static func decide(
        _ offer: some ReleaseOffer, inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        let app = appAnswer(offer, appId: appId)
        let shells = offer.shells.compatibility(with: shell)
        let block = inventory.ledger.block(on: .archive(offer.version))
        // The manifest of a release that a channel has recalled is still signed.
        let withdrawal = inventory.ledger.feed.withdrawal(of: offer.version)
        let newest = SelectionRule.newestUsable(inventory, shell: shell)?.version.semantic
        let isNewer = newest.map { offer.version > $0 } ?? true

        let outcomes = [
            Decision.Outcome(rule: "application", passed: app == nil, detail: appDetail(offer, appId: appId)),
            Decision.Outcome(
                rule: "shell", passed: shells == .compatible, detail: shellDetail(offer.shells, shell: shell)),
            Decision.Outcome(
                rule: "notBlocked", passed: block == nil && withdrawal == nil,
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

    private static func appAnswer(_ offer: some ReleaseOffer, appId: String?) -> Decision.Verdict? {
        guard let appId, offer.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return nil }
        return .wrongApp(expected: appId, found: offer.appId)
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
