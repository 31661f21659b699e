public import BundleValues

/// One way that clients reach a store.
///
/// An offer that exists has passed the source's checks. `stage` returns a complete tree or throws; a half-filled area
/// never leaves staging. Channels never touch the ledger.
package protocol UpdateSource: Sendable {
    /// A client that the source vouches for.
    associatedtype Offer: UpdateOffer

    /// The newest client that this source vouches for and has for the device of `request`, or what is to be remembered before
    /// the channel is asked again.
    func latestOffer(for request: OfferRequest) async throws -> OfferStep<Offer>

    /// What the source's rule says about `offer`; pure. `appId` is the application that the device names.
    func decide(_ offer: Offer, _ inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision

    /// What speaks about everything else that the source had when it made `offer`; pure, for people.
    func explain(_ offer: Offer, _ inventory: Inventory, shell: SemanticVersion, appId: String?) -> [Decision.Outcome]

    /// How `stage` would bring `offer` to the device of `inventory`; nil where only doing it tells. Changes nothing.
    func plan(_ offer: Offer, _ inventory: Inventory) async throws -> PlannedRoute?

    /// Fills `area` with the complete tree of `offer`, linking what `installed` already has.
    func stage(_ offer: Offer, in area: StagingArea, reusing installed: ReuseIndex) async throws -> StagedBundle
}

extension UpdateSource {
    /// Nothing: the source has one client at a time.
    package func explain(
        _ offer: Offer, _ inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> [Decision.Outcome] { [] }

    /// Nothing: files come one by one.
    package func plan(_ offer: Offer, _ inventory: Inventory) async throws -> PlannedRoute? { nil }
}

/// What `check` finds out.
package struct CheckFindings: Sendable {
    /// What the source offers.
    package let offered: ClientVersion
    /// What the rules say about it.
    package let decision: Decision
    /// What speaks about the source's other releases; empty unless asked for.
    package let others: [Decision.Outcome]
    /// How it would come; nil where it would not, or nobody knows.
    package let plan: PlannedRoute?
    /// What `update` would remember of the feed: trust root, document, signed time.
    package let memory: FeedMemory
}

extension UpdateSource where Offer: ReleaseOffer {
    /// `AcceptanceRule`, for the application that the store belongs to where the device names none.
    package func decide(_ offer: Offer, _ inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision {
        AcceptanceRule.decide(offer, inventory: inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }
}

/// Where a device looks for signed archives.
public enum FeedAddress: Sendable, Equatable {
    /// A flat manifest: one release, believed for as long as its keys are.
    case manifest(FetchURL)
    /// A channel document: releases with their rollouts and recalls, believed until it expires.
    case channel(FetchURL)

    /// Its address.
    public var url: FetchURL {
        switch self {
        case .manifest(let url), .channel(let url): url
        }
    }
}

/// What an observer sees of an update under way.
package enum UpdateEvent: Sendable, Equatable {
    /// What the device has already is looked for.
    case planning
    /// The release is verified and its download starts or goes on.
    case downloading(bytes: Int, of: Int?)
    /// The archive is verified and unpacks.
    case unpacking(files: Int, of: Int?)
    /// The publisher packs.
    case packing(bytes: Int, of: Int)
    /// The publisher makes a delta.
    case comparing(bytes: Int, of: Int)
    /// Everything is unpacked and goes to the disk.
    case settling
    /// It came by this way.
    case routed(DownloadRoute)
}
