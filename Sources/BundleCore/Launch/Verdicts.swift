/// The shell's verdicts on launches, and the changes that people make by hand.
public struct Verdicts: Sendable {
    private let store: String
    private let keeper: LedgerKeeper
    private let folders: StoreFolders
    private let warn: @Sendable (String) -> Void

    /// Opens the store at `path`, which must be there; `warn` hears about what could not be cleared up.
    public init(store path: String, warn: @escaping @Sendable (String) -> Void) throws {
        guard try Inventory.exists(at: path) else {
            throw UpdateFailure(.configInvalid, subject: path, "There is no store at \(path): check the path.")
        }
        store = path
        folders = try StoreFolders(below: try StoreFolders.openRoot(path))
        keeper = LedgerKeeper(root: folders.root)
        self.warn = warn
    }

    // MARK: On a launch

    /// The client of the last launch works. True where that had been said before.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch, and with `healthFailed` where
    /// that has failed already.
    public func confirm(_ name: ClientName, _ token: LaunchToken) throws -> Bool {
        try keeper.change { ledger in
            switch try launch(name, token, in: ledger).verdict {
            case .good: return true
            case .faulty: throw tooLate(name, ledger)
            case nil:
                ledger.settleGood(at: .now)
                return false
            }
        }
    }

    /// After a good start, removes all but `keep` clients. Nil where another process works on the store, which does it
    /// instead, or where the disk refuses.
    public func retain(_ keep: Int) async -> RetentionPlan? {
        do {
            return try await BundleStore.open(at: store, warn: warn).retain(keeping: keep)
        } catch let failure as UpdateFailure where failure.code == .storeLocked {
            return nil
        } catch {
            warn("\(UpdateFailure(error).message) Older clients stay until the next run.")
            return nil
        }
    }

    /// What a failure led to.
    public struct Fall: Sendable {
        /// Whether the launch had failed before.
        public let hadFailed: Bool
        /// How often the client has failed to start.
        public let failures: Int
        /// The block, where it failed too often.
        public let block: Ledger.Block?
        /// The client that runs next; nil where nothing can.
        public let next: SelectionRule.Choice?
    }

    /// The client of the last launch does not work: the next launch falls back.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch and it has not been confirmed.
    public func fail(_ name: ClientName, _ token: LaunchToken, _ failure: StartFailure) throws -> Fall {
        try keeper.change { ledger in
            let verdict = try launch(name, token, in: ledger).verdict
            if verdict == .good {
                throw UpdateFailure(
                    .versionMismatch, subject: "\(name)",
                    "This launch of \(name) has been confirmed: use `clientctl rollback` to leave it all the same.")
            }
            if verdict == nil { ledger.settle(faulty: failure) }
            let next = try reschedule(&ledger)
            return Fall(
                hadFailed: verdict != nil,
                failures: name.version.flatMap { ledger.record(of: $0)?.failures.count } ?? 0,
                block: name.version.flatMap { ledger.block(on: $0) }, next: next)
        }
    }

    /// The shell takes the client of the last launch off the screen before there is a verdict: it is not to blame, and its next
    /// launch is a trial again.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch.
    public func abandon(_ name: ClientName, _ token: LaunchToken) throws {
        try keeper.change { ledger in
            _ = try launch(name, token, in: ledger)
            ledger.abandonTrial()
        }
    }

    private func launch(_ name: ClientName, _ token: LaunchToken, in ledger: Ledger) throws -> Launch {
        guard let launch = ledger.launch, launch.name == name, try token.matches(launch.tokenSha256) else {
            let last = ledger.launch.map { "\($0.name) at \($0.at)" } ?? "none"
            throw UpdateFailure(
                .versionMismatch, subject: "\(name)",
                "The token belongs to no running launch of \(name) (the last launch: \(last)). "
                    + "A verdict counts for the launch whose token it shows, and for no later one.")
        }
        return launch
    }

    private func tooLate(_ name: ClientName, _ ledger: Ledger) -> UpdateFailure {
        let failure = name.version.flatMap { ledger.record(of: $0)?.failures.last }
        return UpdateFailure(
            .healthFailed, subject: "\(name)",
            "\(name) was rolled back already: \(failure?.description ?? "its launch failed"). Launch again.")
    }

    // MARK: By hand

    /// Goes back to `target`, or to the last known good client, else the next lower one, else the seed. What is newer is
    /// blocked, so that no installation undoes it; `unblock` lets it run again.
    public func rollBack(to target: ClientName?) throws -> (target: ClientName, blocked: [ClientName]) {
        let result = try keeper.change { ledger in
            let inventory = try Inventory.read(folders.root, ledger: ledger)
            let target = try target ?? wayBack(inventory)
            try requireUsable(target, inventory)
            let ranking = SelectionRule.ranking(inventory).map(\.name)
            let better = Set(ranking.prefix { $0 != target }.filter { !ledger.isLeftByHand($0) })
            let newer = inventory.bundles.map(\.name).filter(better.contains)
            ledger.rollBack(to: target, from: newer.compactMap(\.version), at: .now)
            return (target: target, blocked: newer)
        }
        do {
            try keeper.publishPrevious(clients: folders.clients, staging: folders.staging)
        } catch {
            warn(BundleStore.delayed(error))
        }
        return result
    }

    private func wayBack(_ inventory: Inventory) throws -> ClientName {
        let ledger = inventory.ledger
        let failed = ledger.launch?.verdict == .faulty ? ledger.launch?.name : nil
        let runs = failed ?? ledger.pending ?? ledger.current
        let behind = SelectionRule.ranking(inventory).map(\.name).drop { $0 != runs }.dropFirst()
        let lower = behind.filter { (try? requireUsable($0, inventory)) != nil }
        if let good = lower.first(where: { $0 == ledger.lastKnownGood }) ?? lower.first { return good }
        if runs != .embedded, ledger.seed != nil { return .embedded }
        throw UpdateFailure(
            .usage, subject: "\(runs)", "There is nothing to go back to from \(runs): name a client with --to.")
    }

    private func requireUsable(_ target: ClientName, _ inventory: Inventory) throws {
        guard let version = target.version else {
            // Before its first launch nobody knows what the shell brings.
            if inventory.ledger.seed != nil || inventory.ledger.shell == nil { return }
            throw UpdateFailure(
                .usage, subject: "\(target)", "The shell that launched last brought no seed: name an installed client.")
        }
        guard let bundle = inventory.bundle(version) else {
            let names = inventory.bundles.map(\.name.description).joined(separator: ", ")
            throw UpdateFailure(
                .usage, subject: "\(target)", "\(target) is not installed; here are: \(names.isEmpty ? "none" : names)."
            )
        }
        if !SelectionRule.ranking(inventory).contains(bundle) {
            throw UpdateFailure(
                .usage, subject: "\(target)",
                "\(target) cannot be next: its channel is switched off, or its server offers the seed's own version.")
        }
        switch SelectionRule.usability(of: bundle, ledger: inventory.ledger, shell: inventory.ledger.shell) {
        case .usable: return
        case .withdrawn(let withdrawal):
            throw UpdateFailure(
                .versionBlocked, subject: "\(target)",
                "\(target) may not run: it is \(withdrawal). Choose another client.")
        case .otherSeed:
            throw UpdateFailure(
                .usage, subject: "\(target)",
                "\(target) inherits files of another seed than the shell brings: choose another client.")
        case .blocked(let block):
            throw UpdateFailure(
                .versionBlocked, subject: "\(target)",
                "\(target) is blocked since \(block.since): \(block.reason). "
                    + "If it shall run all the same: `clientctl unblock --version \(target.shortDescription)`.")
        case .incompatible(let answer):
            throw Decision.Verdict.incompatible(answer).failure(of: version) ?? tooLate(target, inventory.ledger)
        }
    }

    /// Lets `version` run again, as if it had never failed; false where nothing blocked it.
    public func unblock(_ version: ClientVersion) throws -> Bool {
        try keeper.change { ledger in
            let wasBlocked = ledger.unblock(version)
            if wasBlocked { _ = try reschedule(&ledger) }
            return wasBlocked
        }
    }

    /// Brings what runs next up to what the rules say.
    private func reschedule(_ ledger: inout Ledger) throws -> SelectionRule.Choice? {
        let choice = SelectionRule.select(
            try Inventory.read(folders.root, ledger: ledger), shell: ledger.shell, hasSeed: ledger.seed != nil)
        if let choice { ledger.schedule(choice.name) }
        return choice
    }
}
