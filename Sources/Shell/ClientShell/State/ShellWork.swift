import BundleValues
import BundleCore
import BundleDisk

/// Carries out the actions of a `ShellState` on the store and the web view. It decides nothing.
struct ShellWork {
    typealias State = ShellState<Launched>

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

    func prepare(_ goal: State.Goal, forGuests: Bool, without silent: Set<ClientName>) -> State.Event {
        do {
            if case .change(let client, _) = goal {
                if let error = show(client) { return .notReady(error, goal) }
                return .ready(.init(client: client, missingShell: nil), goal)
            }
            let client = try prepared(for: goal, forGuests: forGuests, without: silent)
            let missingShell = launcher.missingShell(try launcher.inventory())
            return .ready(.init(client: client, missingShell: missingShell), goal)
        } catch {
            return .notReady(error, goal)
        }
    }

    /// Returns the best client that the web view accepts. A client in `silent` is used if there is no other, unless
    /// its silence is the reason for the change.
    private func prepared(
        for goal: State.Goal, forGuests: Bool, without silent: Set<ClientName>
    ) throws -> PreparedLaunch {
        do {
            return try prepared(
                for: goal, forGuests: forGuests,
                except: Dictionary(uniqueKeysWithValues: silent.map { ($0, ShellError.notStarted) }))
        } catch  where !silent.isEmpty {
            if case .leave(.silent, _) = goal { throw error }
            return try prepared(for: goal, forGuests: forGuests, except: [:])
        }
    }

    private func prepared(
        for goal: State.Goal, forGuests: Bool, except: [ClientName: any Error]
    ) throws -> PreparedLaunch {
        var unfit = except
        while true {
            let client = try launcher.prepare(forGuests: forGuests, without: unfit)
            // A possible replacement is not shown yet.
            if case .next = goal { return client }
            guard let error = show(client) else { return client }
            unfit[client.name] = error
        }
    }

    /// Passes a client to the web view. A client that the web view rejects has failed its start.
    private func show(_ client: PreparedLaunch) -> (any Error)? {
        do {
            try bridge.setServerBasePath(client.client)
            return nil
        } catch {
            launcher.skip(client.name, because: error)
            return error
        }
    }

    func begin(_ client: PreparedLaunch, forGuests: Bool, _ load: State.PageLoad) -> State.Event {
        do {
            if forGuests { return .began(try launcher.show(client), load) }
            return .began(try launcher.begin(client, awaitsPage: visibility == .reported), load)
        } catch {
            return .notBegun(error)
        }
    }

    /// Records a report. A full disk changes nothing, because the shell has received the report.
    func recordReport(_ launched: Launched) { try? verdicts?.pageReported(launched.name, launched.token) }

    func write(_ verdict: State.Verdict, _ launched: Launched) -> State.Writing {
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
    private static func consequence(of fall: Verdicts.FailedLaunch) -> State.Consequence? {
        guard let block = fall.block else { return fall.failures == 1 ? .retried : nil }
        return block.cause == .failedStarts ? .blocked(count: block.count) : nil
    }

    func inspect(_ request: State.ReadingRequest) -> State.Inspection {
        let isSettled = request.pending.map(settle) ?? false
        let recorded = request.unrecorded.map { launcher.record(again: $0) }
        do {
            return .init(isSettled: isSettled, recorded: recorded, store: .success(try store(request)))
        } catch {
            return .init(isSettled: isSettled, recorded: recorded, store: .failure(error))
        }
    }

    /// Writes a pending verdict. Returns true if no further attempt is needed.
    private func settle(_ pending: State.PendingVerdict) -> Bool {
        switch write(pending.verdict, pending.launch) {
        case .refused: false
        // A failure means that the ledger has recorded another launch.
        case .done, .failed: true
        }
    }

    private func store(_ request: State.ReadingRequest) throws -> State.Store {
        let inventory = try launcher.inventory()
        let choice = choice(inventory, for: request.audience, without: request.silent)
        return State.Store(
            ledger: inventory.ledger, choice: choice,
            isUrgent: choice?.name.version.map(inventory.ledger.isUrgent) ?? false,
            busyLimit: BusyPages.limit(inventory.ledger.feed.followed?.busyLimit),
            missingShell: launcher.missingShell(inventory),
            recall: request.running?.version.flatMap(inventory.ledger.recall(of:)))
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
