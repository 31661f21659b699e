import BundleFormats
import BundleValues

/// Chooses the client to which an operator rolls back.
enum RollBackRule {
    enum RollBackDecision: Sendable, Equatable {
        /// Roll back to this client, and block the versions that rank above it.
        case back(to: ClientName, from: [ClientVersion])
        case refused(RollBackRefusal)
    }

    /// The reason why a rollback is refused.
    enum RollBackRefusal: Sendable, Equatable {
        /// No client ranks below the current one.
        case nothingBelow(ClientName, others: [ClientName])
        /// The client to leave is neither current nor next, and does not wait for its second trial.
        case notShown(ClientName)
        /// `failed` was rolled back automatically. Another rollback would leave the working client `runs`, for `next`
        /// if there is one.
        case alreadyBack(from: ClientName, runs: ClientName, next: ClientName?)
        /// The shell that launched last had no seed.
        case noSeed
        case notInstalled(ClientName, here: [ClientName])
        /// The client's source is disabled, or its server offers the seed's own version.
        case unranked(ClientName)
        /// The rules do not allow the client to run.
        case unusable(ClientVersion, SelectionRule.Usability)
    }

    /// Returns the rollback to `named`, or else to the last known good client, the next lower client, or the seed. It
    /// starts at `left` if the operator leaves that client only, otherwise at the current or next client.
    static func decide(_ inventory: Inventory, to named: ClientName?, of left: ClientName? = nil) -> RollBackDecision {
        let origin = left ?? origin(inventory.ledger)
        if let left, !isShown(left, in: inventory) { return .refused(.notShown(left)) }
        if left == nil, named == nil, let failed = rolledBack(inventory, above: origin) {
            return .refused(.alreadyBack(from: failed, runs: origin, next: wayBack(inventory, from: origin)))
        }
        guard let target = named ?? wayBack(inventory, from: origin) else {
            let others = inventory.bundles.map(\.name).filter { $0 != origin }
            return .refused(.nothingBelow(origin, others: others))
        }
        if let refusal = refusal(of: target, inventory) { return .refused(refusal) }
        let ranking = SelectionRule.ranking(inventory).map(\.name)
        let better = Set(ranking.prefix { $0 != target }.filter { !inventory.ledger.isLeftByHand($0) })
        return .back(
            to: target, from: inventory.bundles.filter { better.contains($0.name) }.map(\.version))
    }

    /// Returns whether `name` is the current or the next client, or has failed and would be tried again.
    private static func isShown(_ name: ClientName, in inventory: Inventory) -> Bool {
        let launch = inventory.ledger.launch
        if launch?.name == name || SelectionRule.next(inventory)?.name == name { return true }
        guard let runs = launch?.name, let version = name.version else { return false }
        return SelectionRule.ranking(inventory).prefix { $0.name != runs }.contains { $0.name == name }
            && inventory.ledger.failureBeforeRetry(of: name) != nil && inventory.ledger.block(on: version) == nil
    }

    /// Returns the best client above `runs` whose start failed and that no operator left. Returns nil if the last
    /// launch failed, since no client runs then.
    private static func rolledBack(_ inventory: Inventory, above runs: ClientName) -> ClientName? {
        let ledger = inventory.ledger
        guard ledger.launch?.verdict != .faulty else { return nil }
        return SelectionRule.ranking(inventory).prefix { $0.name != runs }.first { bundle in
            ledger.record(of: bundle.version)?.failures.isEmpty == false && !ledger.isLeftByHand(bundle.name)
        }?.name
    }

    /// Returns the client that an operator leaves by default.
    private static func origin(_ ledger: Ledger) -> ClientName {
        let failed = ledger.launch?.verdict == .faulty ? ledger.launch?.name : nil
        return failed ?? ledger.pending ?? ledger.current
    }

    private static func wayBack(_ inventory: Inventory, from runs: ClientName) -> ClientName? {
        let ledger = inventory.ledger
        let behind = SelectionRule.ranking(inventory).map(\.name).drop { $0 != runs }.dropFirst()
        let lower = behind.filter { refusal(of: $0, inventory) == nil }
        if let good = lower.first(where: { $0 == ledger.lastKnownGood }) ?? lower.first { return good }
        return runs != .embedded && ledger.seed != nil ? .embedded : nil
    }

    private static func refusal(of target: ClientName, _ inventory: Inventory) -> RollBackRefusal? {
        let ledger = inventory.ledger
        guard let version = target.version else {
            return ledger.mayHaveSeed ? nil : .noSeed
        }
        guard let bundle = inventory.bundle(version) else {
            return .notInstalled(target, here: inventory.bundles.map(\.name))
        }
        if !SelectionRule.ranking(inventory).contains(bundle) { return .unranked(target) }
        let usability = SelectionRule.usability(of: bundle, ledger: ledger, shell: ledger.shell)
        return usability == .usable ? nil : .unusable(version, usability)
    }
}

extension RollBackRule.RollBackRefusal {
    var failure: UpdateFailure {
        switch self {
        case .nothingBelow(.embedded, others: []):
            UpdateFailure(
                .usage, subject: "\(ClientName.embedded)",
                "No client is installed in this store, so there is nothing to go back to.")
        case .nothingBelow(let name, others: []):
            UpdateFailure(
                .usage, subject: "\(name)",
                "\(name) is the only client, so there is nothing to go back to. Install another one."
            )
        case .nothingBelow(let name, let others):
            UpdateFailure(
                .usage, subject: "\(name)",
                "There is nothing to go back to from \(name). Name another installed client with --version: "
                    + "\(others.map(\.description).joined(separator: ", ")).")
        case .notShown(let name):
            UpdateFailure(.usage, subject: "\(name)", "\(name) is neither current nor next, so nothing was changed.")
        case .alreadyBack(let failed, let runs, let next):
            UpdateFailure(
                .usage, subject: "\(runs)",
                "\(failed) failed and was rolled back already, so nothing was changed. "
                    + (next.map {
                        "`clientctl rollback --of \(runs.shortDescription)` rolls back from \(runs), the current client, to \($0)."
                    } ?? "\(runs) is current, and no client is below it."))
        case .noSeed:
            UpdateFailure(
                .usage, subject: "\(ClientName.embedded)",
                "The shell that launched last had no seed. Name an installed client.")
        case .notInstalled(let target, let here):
            UpdateFailure(
                .usage, subject: "\(target)",
                "\(target) is not installed. Installed: "
                    + "\(here.isEmpty ? "none" : here.map(\.description).joined(separator: ", ")).")
        case .unranked(let target):
            UpdateFailure(
                .usage, subject: "\(target)",
                "\(target) cannot be next, because its source is disabled or its server offers the seed's own version.")
        case .unusable(let version, let usability):
            Self.failure(of: .installed(version), version: version, usability: usability)
        }
    }

    private static func failure(
        of target: ClientName, version: ClientVersion, usability: SelectionRule.Usability
    ) -> UpdateFailure {
        switch usability {
        case .withdrawn(let withdrawal):
            UpdateFailure(
                .versionBlocked, subject: "\(target)",
                "\(target) must not run, because it is \(withdrawal). Choose another client.")
        case .blocked(let block):
            UpdateFailure(
                .versionBlocked, subject: "\(target)",
                "\(target) is blocked since \(block.since): \(block.reason). "
                    + "To run it anyway, use `clientctl unblock --version \(target.shortDescription)`.")
        case .incompatible(let answer):
            UpdateFailure(
                .incompatibleShell, subject: version.description,
                Decision.Verdict.incompatible(answer).failure(of: version)?.message ?? "\(target) may not run.")
        case .otherSeed, .usable:
            UpdateFailure(
                .usage, subject: "\(target)",
                "\(target) uses files of another seed than this shell has. Choose another client.")
        }
    }
}
