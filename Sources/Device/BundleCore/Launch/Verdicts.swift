import BundleFormats
import BundleDisk
package import BundleValues

/// Records the shell's verdicts on launches, and changes by hand.
package struct Verdicts: Sendable {
    private let store: String
    private let keeper: LedgerKeeper
    private let folders: StoreFolders
    private let environment: Environment

    /// Opens the store at `path`. Throws `configInvalid` if it does not exist. The log receives messages about
    /// failed cleanup.
    package init(store path: String, environment: Environment) throws {
        guard try Inventory.exists(at: path) else {
            throw UpdateFailure(.configInvalid, subject: path, "No store found at \(path): check the path.")
        }
        store = path
        folders = try StoreFolders(below: try StoreFolders.openRoot(path))
        keeper = LedgerKeeper(root: folders.root)
        self.environment = environment
    }

    // MARK: On a launch

    /// Records that a page of the last launch has reported. From then on an interruption of the trial is a failure of
    /// the client.
    ///
    /// Throws `versionMismatch` unless `name` and `token` are those of the last launch.
    package func pageReported(_ name: ClientName, _ token: LaunchToken) throws {
        try keeper.apply([.pageReported(try LaunchClaim(name, token))])
    }

    /// Returns the endpoints that have to answer before `confirm`; nil if the launch is not on trial, or its release requires none.
    package func endpoints(of name: ClientName, _ token: LaunchToken) throws -> ReleaseEndpoints? {
        guard let version = name.version, version.source == .archive, let launch = try keeper.read().launch,
            launch.isOpenTrial, try LaunchClaim(name, token).matches(launch)
        else { return nil }
        return try folders.receipts.file(ifPresent: StoreLayout.receipt(version)).flatMap(ReleaseEndpoints.init)
    }

    /// Confirms the last launch. Returns true if it was confirmed before.
    ///
    /// Throws `versionMismatch` unless `name` and `token` are those of the last launch, and `healthFailed` if the
    /// launch has failed already.
    package func confirm(_ name: ClientName, _ token: LaunchToken) throws -> Bool {
        let update = try keeper.apply([.confirmed(try LaunchClaim(name, token), at: environment.now())])
        return update.before.launch?.verdict == .good
    }

    /// Removes all but `keep` clients after a confirmed start. Returns nil if another process, which does the same,
    /// works on the store, or if the disk fails.
    package func retain(_ keep: Int) async -> RetentionPlan? {
        do {
            return try await BundleStore.open(at: store, environment: environment).retain(keeping: keep)
        } catch let failure as UpdateFailure where failure.code == .storeLocked {
            return nil
        } catch {
            environment.log("\(UpdateFailure(error).message) Older clients stay until the next run.")
            return nil
        }
    }

    /// The consequences of a failed launch.
    package struct FailedLaunch: Sendable {
        /// Whether the launch had failed before.
        package let hadFailed: Bool
        /// The number of failed starts of the client.
        package let failures: Int
        /// The block, if the client has failed too often.
        package let block: Ledger.Block?
        /// The next client; nil if no client can run.
        package let next: SelectionRule.Choice?
    }

    /// Fails the last launch, so that the next launch falls back.
    ///
    /// Throws `versionMismatch` unless `name` and `token` are those of the last launch and it is not confirmed.
    package func fail(_ name: ClientName, _ token: LaunchToken, _ failure: StartFailure) throws -> FailedLaunch {
        let update = try keeper.apply([.failed(try LaunchClaim(name, token), failure)])
        let ledger = update.after.ledger
        return FailedLaunch(
            hadFailed: update.before.launch?.verdict == .faulty,
            failures: name.version.flatMap { ledger.record(of: $0)?.failures.count } ?? 0,
            block: name.version.flatMap { ledger.block(on: $0) }, next: SelectionRule.next(update.after))
    }

    /// Ends the last launch without a verdict, because the shell closes its client. The client's next launch is a
    /// trial again.
    ///
    /// Throws `versionMismatch` unless `name` and `token` are those of the last launch.
    package func abandon(_ name: ClientName, _ token: LaunchToken) throws {
        try keeper.apply([.abandoned(try LaunchClaim(name, token))])
    }

    // MARK: By hand

    /// The result of a rollback by hand.
    package enum RollBackResult: Sendable, Equatable {
        /// `target` is next. The `blocked` clients could run before.
        case back(target: ClientName, blocked: [ClientName])
        /// The client to leave is neither current nor next, so nothing was changed.
        case notShown(ClientName)
        /// The failed client was rolled back automatically, so nothing was changed. `advice` describes the effect of
        /// another rollback from `runs`.
        case alreadyBack(runs: ClientName, advice: String)
        /// No client ranks below the one to leave.
        case nothingBelow(ClientName, advice: String)
    }

    /// Rolls back to `target`, or else to the last known good client, the next lower one, or the seed; with `left`,
    /// only from that client. Newer clients are blocked, so that no update undoes the rollback, until `unblock` frees
    /// them.
    package func rollBack(to target: ClientName?, of left: ClientName? = nil) throws -> RollBackResult {
        let update: LedgerUpdate
        switch try keeper.propose([.rolledBack(to: target, of: left, at: environment.now())]) {
        case .written(let written): update = written
        case .refused(.noWayBack(let refusal)):
            switch refusal {
            case .nothingBelow(let name, _): return .nothingBelow(name, advice: refusal.failure.message)
            case .notShown(let name): return .notShown(name)
            case .alreadyBack(_, let runs, _): return .alreadyBack(runs: runs, advice: refusal.failure.message)
            case .noSeed, .notInstalled, .unranked, .unusable: throw refusal.failure
            }
        case .refused(let refusal): throw refusal.failure
        }
        keeper.updatePrevious(in: folders, environment: environment)
        let ledger = update.after.ledger
        let blocked = update.after.bundles.filter {
            ledger.block(on: $0.version) != nil && update.before.block(on: $0.version) == nil
        }
        return .back(target: ledger.pending ?? ledger.current, blocked: blocked.map(\.name))
    }

    /// Unblocks `version` and forgets its failures. Returns false if it was not blocked.
    package func unblock(_ version: ClientVersion) throws -> Bool {
        try keeper.apply([.unblocked(version)]).before.block(on: version) != nil
    }
}
