package import BundleValues

/// The shell's verdicts on launches, and the changes that people make by hand.
package struct Verdicts: Sendable {
    private let store: String
    private let keeper: LedgerKeeper
    private let folders: StoreFolders
    private let now: @Sendable () -> Timestamp
    private let warn: @Sendable (String) -> Void

    /// Opens the store at `path`, which must be there; `now` is what the ledger says about when, `warn` hears about what could
    /// not be cleared up.
    package init(
        store path: String, now: @escaping @Sendable () -> Timestamp = { .now },
        warn: @escaping @Sendable (String) -> Void
    ) throws {
        guard try Inventory.exists(at: path) else {
            throw UpdateFailure(.configInvalid, subject: path, "There is no store at \(path): check the path.")
        }
        store = path
        folders = try StoreFolders(below: try StoreFolders.openRoot(path))
        keeper = LedgerKeeper(root: folders.root)
        self.now = now
        self.warn = warn
    }

    // MARK: On a launch

    /// A page of the last launch has reported, so what ends its trial from now on is a failure of the client.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch.
    package func hear(_ name: ClientName, _ token: LaunchToken) throws {
        try keeper.apply([.heard(try LaunchClaim(name, token))])
    }

    /// The client of the last launch works. True where that had been said before.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch, and with `healthFailed` where
    /// that has failed already.
    package func confirm(_ name: ClientName, _ token: LaunchToken) throws -> Bool {
        let update = try keeper.apply([.confirmed(try LaunchClaim(name, token), at: now())])
        return update.before.launch?.verdict == .good
    }

    /// After a good start, removes all but `keep` clients. Nil where another process works on the store, which does it
    /// instead, or where the disk refuses.
    package func retain(_ keep: Int) async -> RetentionPlan? {
        do {
            return try await BundleStore.open(at: store, time: now(), warn: warn).retain(keeping: keep)
        } catch let failure as UpdateFailure where failure.code == .storeLocked {
            return nil
        } catch {
            warn("\(UpdateFailure(error).message) Older clients stay until the next run.")
            return nil
        }
    }

    /// What a failure led to.
    package struct Fall: Sendable {
        /// Whether the launch had failed before.
        package let hadFailed: Bool
        /// How often the client has failed to start.
        package let failures: Int
        /// The block, where it failed too often.
        package let block: Ledger.Block?
        /// The client that runs next; nil where nothing can.
        package let next: SelectionRule.Choice?
    }

    /// The client of the last launch does not work: the next launch falls back.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch and it has not been confirmed.
    package func fail(_ name: ClientName, _ token: LaunchToken, _ failure: StartFailure) throws -> Fall {
        let update = try keeper.apply([.failed(try LaunchClaim(name, token), failure)])
        let ledger = update.after.ledger
        return Fall(
            hadFailed: update.before.launch?.verdict == .faulty,
            failures: name.version.flatMap { ledger.record(of: $0)?.failures.count } ?? 0,
            block: name.version.flatMap { ledger.block(on: $0) }, next: SelectionRule.next(update.after))
    }

    /// The shell takes the client of the last launch off the screen before there is a verdict: it is not to blame, and its next
    /// launch is a trial again.
    ///
    /// Refused with `versionMismatch` unless `name` and `token` are those of the last launch.
    package func abandon(_ name: ClientName, _ token: LaunchToken) throws {
        try keeper.apply([.abandoned(try LaunchClaim(name, token))])
    }

    // MARK: By hand

    /// How going back by hand ended.
    package enum Return: Sendable, Equatable {
        /// `target` is next. The `blocked` clients could run before.
        case back(target: ClientName, blocked: [ClientName])
        /// The client to go back from neither runs nor is next, so nothing was changed.
        case notShown(ClientName)
        /// The client that failed was rolled back by itself, so nothing was changed: `runs` is not to blame. `advice` says what going back
        /// from it would do.
        case alreadyBack(runs: ClientName, advice: String)
        /// There is nothing below the client that the operator would go back from.
        case nothingBelow(ClientName, advice: String)
    }

    /// Goes back to `target`, else to the last known good client, else the next lower one, else the seed; where `left` is named, only
    /// if that client runs or is next. What is newer is blocked, so that no installation undoes it; `unblock` lets it run again.
    package func rollBack(to target: ClientName?, of left: ClientName? = nil) throws -> Return {
        let update: LedgerUpdate
        switch try keeper.propose([.rolledBack(to: target, of: left, at: now())]) {
        case .written(let written): update = written
        case .refused(.noWayBack(let refusal)):
            switch refusal {
            case .nothingBelow(let name): return .nothingBelow(name, advice: refusal.failure.message)
            case .notShown(let name): return .notShown(name)
            case .alreadyBack(_, let runs, _): return .alreadyBack(runs: runs, advice: refusal.failure.message)
            case .noSeed, .notInstalled, .unranked, .unusable: throw refusal.failure
            }
        case .refused(let refusal): throw refusal.failure
        }
        do {
            try keeper.publishPrevious(clients: folders.clients, staging: folders.staging)
        } catch {
            warn(BundleStore.delayed(error))
        }
        let ledger = update.after.ledger
        let blocked = update.after.bundles.filter {
            ledger.block(on: $0.version) != nil && update.before.block(on: $0.version) == nil
        }
        return .back(target: ledger.pending ?? ledger.current, blocked: blocked.map(\.name))
    }

    /// Lets `version` run again, as if it had never failed; false where nothing blocked it.
    package func unblock(_ version: ClientVersion) throws -> Bool {
        try keeper.apply([.unblocked(version)]).before.block(on: version) != nil
    }
}
