/// Take this offer? A pure rule; its order is the order of `outcomes`.
public enum AcceptanceRule {
    /// What to do with an offer, and why.
    public enum Verdict: Sendable, Equatable {
        /// Newer than every usable client: take it.
        case install
        /// Nothing newer; `newest` is the usable client that stands in its way.
        case upToDate(newest: SemanticVersion)
        /// Not for this shell.
        case incompatible(ShellCompatibility)
        /// Must not run on this device.
        case blocked(Ledger.Block)
        /// Belongs to another application.
        case wrongApp(expected: String, found: String?)
    }

    /// One rule's answer, for people and for `check`.
    public struct Outcome: Sendable, Equatable {
        /// The rule's name.
        public let rule: String
        /// Whether the offer passed it.
        public let passed: Bool
        /// The facts it compared.
        public let detail: String

        /// States an answer.
        public init(rule: String, passed: Bool, detail: String) {
            self.rule = rule
            self.passed = passed
            self.detail = detail
        }
    }

    /// The verdict with every rule's answer; the first rule that is not passed decides.
    public struct Decision: Sendable, Equatable {
        /// What to do.
        public let verdict: Verdict
        /// Every rule in order.
        public let outcomes: [Outcome]
    }

    /// Decides about `offer` on a device with `inventory`, `shell` and, when it has one, `appId`.
    public static func decide(
        _ offer: some UpdateOffer, inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> Decision {
        let app = appAnswer(offer, appId: appId)
        let shells = offer.shells.answer(for: shell)
        let block = inventory.ledger.block(on: offer.version)
        let newest = SelectionRule.newestUsable(inventory, shell: shell)
        let isNewer = newest.map { offer.version > $0.version } ?? true

        let outcomes = [
            Outcome(rule: "application", passed: app == nil, detail: appDetail(offer, appId: appId)),
            Outcome(rule: "shell", passed: shells == .compatible, detail: shellDetail(offer.shells, shell: shell)),
            Outcome(
                rule: "notBlocked", passed: block == nil,
                detail: block.map { "blocked since \($0.since): \($0.reason)" } ?? "not blocked on this device"),
            Outcome(
                rule: "newer", passed: isNewer,
                detail: newest.map { "offered \(offer.version), newest usable here \($0.version)" }
                    ?? "offered \(offer.version), nothing usable is installed"),
        ]
        let verdict: Verdict
        if let app {
            verdict = app
        } else if shells != .compatible {
            verdict = .incompatible(shells)
        } else if let block {
            verdict = .blocked(block)
        } else if let newest, !isNewer {
            verdict = .upToDate(newest: newest.version)
        } else {
            verdict = .install
        }
        return Decision(verdict: verdict, outcomes: outcomes)
    }

    private static func appAnswer(_ offer: some UpdateOffer, appId: String?) -> Verdict? {
        guard let appId, offer.appId.map({ $0.utf8.elementsEqual(appId.utf8) }) != true else { return nil }
        return .wrongApp(expected: appId, found: offer.appId)
    }

    private static func appDetail(_ offer: some UpdateOffer, appId: String?) -> String {
        guard let appId else { return "this device names no application" }
        return "device \(appId), offer \(offer.appId ?? "names none")"
    }

    private static func shellDetail(_ shells: ShellRange, shell: SemanticVersion) -> String {
        let maximum = shells.maximum.map { "at most \($0)" } ?? "no upper limit"
        return "shell \(shell), needed at least \(shells.minimum), \(maximum)"
    }
}

extension AcceptanceRule.Verdict {
    /// The verdict as a refusal of `version`; nil for those that are answers rather than failures.
    public func failure(of version: SemanticVersion) -> UpdateFailure? {
        switch self {
        case .install, .upToDate: nil
        case .incompatible(.shellTooOld(let minimum)):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                "Version \(version) needs shell \(minimum) or newer: update the shell, then try again.")
        case .incompatible(.shellTooNew(let maximum)):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                "Version \(version) is for shells up to \(maximum): wait for a release for this shell.")
        case .incompatible(.compatible): nil
        case .blocked(let block):
            UpdateFailure(
                .versionBlocked, subject: version.description,
                "Version \(version) is blocked on this device since \(block.since): \(block.reason)")
        case .wrongApp(let expected, let found):
            UpdateFailure(
                .appMismatch, subject: found ?? "",
                "The manifest is for \(found ?? "no named application"), this device runs \(expected): "
                    + "check the feed's address.")
        }
    }
}
