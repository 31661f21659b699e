import BundleCore
import BundleValues

extension ShellState {
    func inspect(then sequel: Sequel) -> [Action] {
        let unrecorded = launched.flatMap { $0.isRecorded || audience != .everybody ? nil : $0 }
        let request = ReadingRequest(
            audience: audience, running: launched?.name, pending: pending, unrecorded: unrecorded, silent: silent)
        return [.inspect(request, sequel)]
    }

    mutating func inspected(_ inspection: Inspection, _ sequel: Sequel, at now: Duration) -> [Action] {
        if inspection.isSettled { pending = nil }
        if let recorded = inspection.recorded { launched = recorded }
        switch inspection.store {
        case .failure(let error): return proceed(with: sequel, at: now, after: error)
        case .success(let store):
            busyLimit = store.busyLimit
            busy.inspected(at: now, limit: busyLimit)
            noteRetry(store.choice)
            if store.ledger == ledger { return proceed(with: sequel, at: now) }
            ledger = store.ledger
            missingShell = store.missingShell
            urgent = store.isUrgent ? store.choice?.name : nil
            if store.recall != nil, failure == nil, busy.holdsRecall(at: now, limit: busyLimit) {
                // The next reading acts on the recall, when the page is no longer busy or its limit has passed.
                ledger = nil
                return proceed(with: sequel, at: now)
            }
            return goal(for: store, sequel, at: now).map { prepare($0) } ?? proceed(with: sequel, at: now)
        }
    }

    /// Returns the client to prepare now; nil if there is none. A failed client is not offered to the page that follows it: its
    /// retry comes with a check after a pause (`RetryRule`), with an operator's request, or with the next start.
    private mutating func goal(for store: Store, _ sequel: Sequel, at now: Duration) -> Goal? {
        guard let choice = store.choice else { return nil }
        guard let launched else {
            return choice.name == prepared?.name ? nil : .start(.inspection(sequel))
        }
        // Between a reload and its page nothing is decided.
        guard launched.name == prepared?.name else { return nil }
        if let failure { return .leave(.failed(failure), sequel) }
        if let reason = store.recall { return .leave(.recalled(reason), sequel) }
        if choice.name == launched.name { next = nil }
        if choice.name == launched.name || choice.name == next?.name { return nil }
        if case .retry = choice.reason, !mayRetry(choice.name, sequel, at: now) { return nil }
        return .next(sequel)
    }

    private func mayRetry(_ name: ClientName, _ sequel: Sequel, at now: Duration) -> Bool {
        if trial != nil { return false }
        switch sequel {
        case .request(let request): return request.client == name
        case .retry:
            let time = failed.flatMap { $0.name == name ? $0.at : nil }
            return RetryRule.answer(failedAt: time, now: now, pause: retryPause) == .offered
        case .nothing, .activate, .reload, .load: return false
        }
    }

    /// Carries out `sequel` after the store has been read and acted on.
    mutating func proceed(with sequel: Sequel, at now: Duration, after error: (any Error)? = nil) -> [Action] {
        // A client on trial keeps its time to confirm. A failed change reports its own error.
        if sequel.isIdle, error == nil, trial == nil, let next, mayShow(next, sequel, at: now) {
            return prepare(.change(next, sequel))
        }
        let actions = report(error)
        switch sequel {
        case .nothing, .retry, .activate, .request: return actions
        case .reload:
            if let next { return actions + prepare(.change(next, sequel)) }
            let refusal = waiting.map { ShellError.awaitsSecondTrial($0.message) } ?? .noPendingVersion
            return actions + [.refuse(refusal)]
        case .load(let load):
            guard let next, load.takesNext, mayChange(load), !isBusy(now) else { return actions + open(load, at: now) }
            return actions + prepare(.change(next, sequel))
        }
    }

    /// Returns whether `client` replaces the running one without a request of a page.
    private func mayShow(_ client: Prepared, _ sequel: Sequel, at now: Duration) -> Bool {
        if case .request(let request) = sequel, request.client == client.name {
            return !(request.waitsForBusyPages && isBusy(now))
        }
        return !isBusy(now) && (sequel == .activate || client.name == urgent)
    }

    private func isBusy(_ now: Duration) -> Bool { busy.holds(at: now, limit: busyLimit) }

    /// Returns whether the load may show another client. Urgent releases ignore activation windows.
    func mayChange(_ load: PageLoad) -> Bool {
        load.mayChange || next.map { $0.name == urgent } ?? false
    }

    /// Reports an error once, though the store is read twice a second. Each reading tries again.
    mutating func report(_ error: (any Error)?) -> [Action] {
        let before = trouble
        trouble = error.map { UpdateFailure($0) }
        if trouble != nil { ledger = nil }
        return trouble.flatMap { $0 == before ? nil : [.report(.failed($0))] } ?? []
    }
}
