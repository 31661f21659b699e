import BundleFormats
import BundleValues

/// Judges by the ledger whether a client that an operator asked for was shown and confirmed.
package struct ActivationRule: Sendable, Equatable {
    /// The client to show.
    package let client: ClientName
    /// The last failed start before the request.
    private let failure: StartFailure?

    /// The first answer to a request.
    package enum ActivationStart: Sendable, Equatable {
        /// The shell has to show the client.
        case request(ActivationRule)
        /// The store has the result already, or nothing can be shown.
        case ended(ClientName?, ActivationEnding)
    }

    /// The result of a request.
    package enum ActivationEnding: Sendable, Equatable {
        /// The client runs, and has confirmed its start.
        case confirmed
        /// The start of the client failed.
        case rolledBack(StartFailure)
        /// The client must not run, for this reason.
        case blocked(String)
        /// The client is not next, for this reason.
        case nothingReady(String)
    }

    /// Returns the first answer to a request for `named`, or else for the next client.
    package static func start(_ inventory: Inventory, showing named: ClientName?) -> ActivationStart {
        let ledger = inventory.ledger
        let next = SelectionRule.next(inventory)?.name
        let running = ledger.launch.flatMap { $0.verdict == .faulty ? nil : $0.name }
        guard let client = named ?? next else { return .ended(nil, .nothingReady("no client can run on this device")) }
        let rule = ActivationRule(client: client, failure: client.version.flatMap(ledger.record)?.failures.last)
        if let ending = rule.ending(inventory) {
            if named == nil, ending == .confirmed {
                return .ended(client, .nothingReady("\(client) runs already, and no other client is ready"))
            }
            return .ended(client, ending)
        }
        if client == running || client == next { return .request(rule) }
        return .ended(client, .nothingReady(next.map { "\($0) is next, not \(client)" } ?? "\(client) may not run"))
    }

    /// Returns the result that `inventory` has; nil while the client is not shown, or on trial.
    ///
    /// An interrupted start is not a result, because it is not the client's failure if the shell or the machine ended. The client is tried
    /// again. The second interruption blocks it.
    package func ending(_ inventory: Inventory) -> ActivationEnding? {
        let ledger = inventory.ledger
        if let version = client.version {
            let last = ledger.record(of: version)?.failures.last
            let isBlocked = ledger.block(on: version)?.cause == .failedStarts
            if let last, last != failure, last.cause != .interrupted || isBlocked { return .rolledBack(last) }
            if let reason = ledger.recall(of: version) { return .blocked(reason) }
            if inventory.bundle(version) == nil { return .nothingReady("\(client) is not installed") }
        }
        return ledger.launch?.name == client && ledger.launch?.verdict == .good ? .confirmed : nil
    }

    /// Returns the condition that the request still waits for.
    package func delay(_ inventory: Inventory) -> String {
        inventory.ledger.launch?.name == client && inventory.ledger.launch?.verdict == nil
            ? "\(client) is shown, but has not confirmed its start"
            : "\(client) is not shown yet, because the page is busy, no page is open, or no `clientctl serve` runs on the store"
    }
}
