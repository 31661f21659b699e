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
                "Version \(version) \(ShellCompatibility.shellTooOld(minimum: minimum)): update the shell, then try again."
            )
        case .incompatible(.shellTooNew(let maximum)):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                "Version \(version) \(ShellCompatibility.shellTooNew(maximum: maximum)): wait for a release for this shell."
            )
        case .blocked(let block):
            UpdateFailure(
                .versionBlocked, subject: version.description, Self.text(of: block, on: version))
        case .wrongApp(let expected, let found):
            UpdateFailure(
                .appMismatch, subject: found ?? "",
                "The manifest is for \(found ?? "no named application"), this device runs \(expected): "
                    + "check the feed's address.")
        case .unsuitable(let failure): failure
        }
    }

    /// Meteor's clients know the words in front (METEOR section 3.2).
    private static func text(of block: Ledger.Block, on version: ClientVersion) -> String {
        let told = "Version \(version) is blocked on this device since \(block.since): \(block.reason)"
        return version.source == .meteor ? "Skipping downloading blacklisted version. \(told)" : told
    }
}
