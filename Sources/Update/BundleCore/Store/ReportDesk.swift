package import BundleValues
import BundleDisk

/// The reports of one store, for whoever sends them.
package struct ReportDesk: Sendable {
    private let store: String

    /// For the store at `store`.
    package init(store: String) { self.store = store }

    /// What waits, and for which application; nil where the device does not report, or there is no store.
    package func read() throws -> (queue: ReportQueue, appId: String?)? {
        guard try Inventory.exists(at: store) else { return nil }
        let ledger = try Inventory.read(at: store).ledger
        return ledger.reports.map { ($0, ledger.appId) }
    }

    /// From now on facts are noted, or they are noted no more and forgotten. The store is made where it is missing and they are.
    package func turn(on isOn: Bool) throws {
        if try !Inventory.exists(at: store) && !isOn { return }
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        try LedgerKeeper(root: folders.root).apply([.reporting(isOn)])
    }

    /// A receiver has `message`; durable when it returns.
    package func settle(_ message: ReportMessage) throws {
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        try LedgerKeeper(root: folders.root).apply([
            .reported(ids: message.reports.map(\.id), dropped: message.dropped)
        ])
    }
}
