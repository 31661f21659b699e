import BundleFormats
package import BundleValues

/// The result of an update. The version is the offered one.
package enum UpdateOutcome: Sendable {
    case installed(ClientVersion, InstallReport)
    /// The offer is installed already and is next; nothing was downloaded.
    case chosen(ClientVersion, InstallReport)
    /// The offer is not newer than `newest`, the best usable client.
    case upToDate(ClientVersion, inventory: Inventory, newest: ClientName)
    /// The rollout excludes this device for now. `newest` is its best client.
    case notInRollout(ClientVersion, inventory: Inventory, newest: ClientName, detail: String)
    /// The offer is for this device, and its download waits. `newest` is the device's best client.
    case waiting(ClientVersion, inventory: Inventory, newest: ClientName, FetchWait)

    static func nothing(
        _ offered: ClientVersion, _ verdict: Decision.Verdict, inventory: Inventory, newest: ClientName
    ) -> UpdateOutcome {
        guard case .notInRollout(_, let detail) = verdict else {
            return .upToDate(offered, inventory: inventory, newest: newest)
        }
        return .notInRollout(offered, inventory: inventory, newest: newest, detail: detail)
    }
}

/// The details of an installation.
package struct InstallReport: Sendable {
    /// The client that was installed or chosen.
    package let name: ClientName
    /// The client in the store; nil for the seed.
    package let bundle: InstalledBundle?
    private let ledger: Ledger
    /// The client that runs, or will run first.
    package var current: ClientName { ledger.current }
    /// The client that runs next, if it is another one.
    package var pending: ClientName? { ledger.pending }
    /// Returns the client that precedes the next one; nil if that is the seed and there is none.
    package func previous(hasSeed: Bool) -> ClientName? {
        let previous = ledger.pending == nil ? ledger.previous : ledger.current
        return hasSeed ? previous : ledger.known(previous)
    }
    /// The size of all downloaded response bodies.
    package let bytesDownloaded: Int
    /// The route of the download; nil if there was none, and for a Meteor bundle.
    package let route: DownloadRoute?
    /// The clients that stayed and those that were removed.
    package let retention: RetentionPlan

    init(
        _ name: ClientName, _ inventory: Inventory, bytesDownloaded: Int, route: DownloadRoute? = nil,
        retention: RetentionPlan
    ) {
        self.route = route
        self.name = name
        bundle = name.version.flatMap(inventory.bundle)
        ledger = inventory.ledger
        self.bytesDownloaded = bytesDownloaded
        self.retention = retention
    }
}
