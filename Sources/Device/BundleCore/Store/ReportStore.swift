package import BundleValues
import BundleDisk

/// Access to the reports of a store, for their sender.
package struct ReportStore: Sendable {
    private let store: String

    /// Creates the access to the store at `store`.
    package init(store: String) { self.store = store }

    /// Returns the queue, and the application of the store. Returns nil if the device does not report, or if there is
    /// no store.
    package func read() throws -> (queue: ReportQueue, appId: String?)? {
        guard try Inventory.exists(at: store) else { return nil }
        let ledger = try Inventory.read(at: store).ledger
        return ledger.reports.map { ($0, ledger.appId) }
    }

    /// Turns reporting on, or turns it off and deletes the queue. Creates a missing store to turn it on.
    package func turn(on isOn: Bool) throws {
        if try !Inventory.exists(at: store) && !isOn { return }
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        try LedgerKeeper(root: folders.root).apply([.reporting(isOn)])
    }

    /// Removes the reports of `message`, which a receiver accepted. They are durable on return.
    package func settle(_ message: ReportMessage) throws {
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        try LedgerKeeper(root: folders.root).apply([
            .reported(ids: message.reports.map(\.id), dropped: message.dropped)
        ])
    }
}
