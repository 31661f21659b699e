import BundleValues
import BundleCore
import BundleDisk

/// The store and the web view of a `ShellState`. It decides nothing.
struct ShellWork: ShellDisk {
    private let launcher: Launcher
    /// Nil without a store, where no launch is recorded.
    private let verdicts: Verdicts?
    private let bridge: any ShellBridge
    private let visibility: ShellConfiguration.Visibility

    init(
        _ launcher: Launcher, _ verdicts: Verdicts?, _ bridge: any ShellBridge,
        _ visibility: ShellConfiguration.Visibility
    ) {
        self.visibility = visibility
        self.launcher = launcher
        self.verdicts = verdicts
        self.bridge = bridge
    }

    /// Returns the best client that the web view accepts.
    func prepare(
        forGuests: Bool, without silent: Set<ClientName>, for use: PreparedUse
    ) throws -> ReadyForPage<PreparedLaunch> {
        let unfit = Dictionary(uniqueKeysWithValues: silent.map { ($0, ShellError.notStarted as any Error) })
        let client: PreparedLaunch
        do {
            client = try prepared(forGuests: forGuests, without: unfit, for: use)
        } catch  where !silent.isEmpty && use != .otherThanSilent {
            client = try prepared(forGuests: forGuests, without: [:], for: use)
        }
        return ReadyForPage(client: client, missingShell: launcher.missingShell(try launcher.inventory()))
    }

    private func prepared(
        forGuests: Bool, without silent: [ClientName: any Error], for use: PreparedUse
    ) throws -> PreparedLaunch {
        var unfit = silent
        while true {
            let client = try launcher.prepare(forGuests: forGuests, without: unfit)
            if use == .next { return client }
            do {
                try show(client)
                return client
            } catch {
                unfit[client.name] = error
            }
        }
    }

    /// Passes a client to the web view. A client that the web view rejects has failed its start.
    func show(_ client: PreparedLaunch) throws {
        do {
            try bridge.show(client.client)
        } catch {
            launcher.skip(client.name, because: error)
            throw error
        }
    }

    func begin(_ client: PreparedLaunch, forGuests: Bool) throws -> Launched? {
        forGuests ? try launcher.show(client) : try launcher.begin(client, awaitsPage: visibility == .reported)
    }

    func record(again launched: Launched) -> Launched { launcher.record(again: launched) }

    /// Records a report. A full disk changes nothing, because the shell has received the report.
    func recordReport(_ launched: Launched) { try? verdicts?.pageReported(launched.name, launched.token) }

    func write(_ verdict: LaunchVerdict, _ launched: Launched) -> VerdictWriting {
        guard let verdicts else { return .done(wasKnown: false) }
        do {
            switch verdict {
            case .good: return .done(wasKnown: try verdicts.confirm(launched.name, launched.token))
            case .faulty(let failure):
                let fall = try verdicts.fail(launched.name, launched.token, failure)
                return .done(wasKnown: false, Self.consequence(of: fall))
            case .abandoned: try verdicts.abandon(launched.name, launched.token)
            }
            return .done(wasKnown: false)
        } catch let error as DiskError {
            launcher.refuseTrials()
            return .refused(error.failure)
        } catch {
            return .failed(error)
        }
    }

    /// Returns the consequence of a failed launch; nil for the seed, and for a client that an operator blocked.
    private static func consequence(of fall: Verdicts.FailedLaunch) -> LaunchConsequence? {
        guard let block = fall.block else { return fall.failures == 1 ? .retried : nil }
        return block.cause == .failedStarts ? .blocked(count: block.count) : nil
    }

    func settle(_ verdict: LaunchVerdict, _ launched: Launched) -> Bool {
        switch write(verdict, launched) {
        case .refused: false
        // A failure means that the ledger has recorded another launch.
        case .done, .failed: true
        }
    }

    func read(
        for audience: ClientShell.Audience, running: ClientName?, without silent: Set<ClientName>
    ) throws -> StoreReading {
        let inventory = try launcher.inventory()
        let choice = choice(inventory, for: audience, without: silent)
        return StoreReading(
            ledger: inventory.ledger, choice: choice,
            isUrgent: choice?.name.version.map(inventory.ledger.isUrgent) ?? false,
            busyLimit: BusyPages.limit(inventory.ledger.feed.followed?.busyLimit),
            missingShell: launcher.missingShell(inventory),
            recall: running?.version.flatMap(inventory.ledger.recall(of:)))
    }

    private func choice(
        _ inventory: Inventory, for audience: ClientShell.Audience, without silent: Set<ClientName>
    ) -> SelectionRule.Choice? {
        switch audience {
        case .everybody: launcher.choice(inventory, excluding: silent) ?? launcher.choice(inventory)
        case .guests: launcher.choice(inventory, excluding: Set(inventory.bundles.map(\.name)))
        case .nobody: nil
        }
    }
}
