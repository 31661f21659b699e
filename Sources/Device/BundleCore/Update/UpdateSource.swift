import BundleFormats
public import BundleValues

/// A source of clients for a store.
///
/// An offer has passed the source's own checks. `stage` returns a complete tree or throws; a partial tree never
/// leaves staging. A source never writes the ledger.
package protocol UpdateSource: Sendable {
    /// A client that the source has verified.
    associatedtype Offer: UpdateOffer

    /// Returns the newest verified client for the device of `request`, or an update that the caller has to store
    /// before it asks again.
    func latestOffer(for request: OfferRequest) async throws -> OfferStep<Offer>

    /// Returns the decision of the source's rules. Pure. `appId` is the application that the device names.
    func decide(_ offer: Offer, in inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision

    /// Returns the outcomes for all other releases that the source had when it made `offer`. Pure; for people.
    func explain(_ offer: Offer, in inventory: Inventory, shell: SemanticVersion, appId: String?) -> [Decision.Outcome]

    /// Returns how `stage` would download `offer`; nil if that is unknown in advance. Changes nothing.
    func plan(_ offer: Offer, in inventory: Inventory) async throws -> PlannedRoute?

    /// Fills `area` with the complete tree of `offer`, and links content of `installed`.
    func stage(_ offer: Offer, in area: StagingArea, reusing installed: ReuseIndex) async throws -> StagedBundle
}

extension UpdateSource {
    /// Returns an empty list, for a source that has one client at a time.
    package func explain(
        _ offer: Offer, in inventory: Inventory, shell: SemanticVersion, appId: String?
    ) -> [Decision.Outcome] { [] }

    /// Returns nil, for a source that downloads files one by one.
    package func plan(_ offer: Offer, in inventory: Inventory) async throws -> PlannedRoute? { nil }
}

/// The results of a check.
package struct CheckFindings: Sendable {
    package let offered: ClientVersion
    package let decision: Decision
    /// The outcomes of the source's other releases; empty unless requested.
    package let others: [Decision.Outcome]
    /// The expected route of the download; nil if there is none, or if it is unknown.
    package let plan: PlannedRoute?
    /// The state of the feed that `update` would store: trust root, channel file, signed time.
    package let memory: FeedMemory
    /// The reason why the download waits; nil if it may start, or if there is none.
    package let wait: FetchWait?
    /// The failed start of the offered client, if the device has the client and tries it once more; otherwise nil.
    package let retry: StartFailure?
    /// The limit on the rate, in bytes per second; nil for none.
    package let rate: Int?
}

extension UpdateSource where Offer: ReleaseOffer {
    /// Decides by `AcceptanceRule`, for the application of the store if the device names none.
    package func decide(_ offer: Offer, in inventory: Inventory, shell: SemanticVersion, appId: String?) -> Decision {
        AcceptanceRule.decide(offer, inventory: inventory, shell: shell, appId: appId ?? inventory.ledger.appId)
    }
}

/// The address of signed archives.
public enum FeedAddress: Sendable, Equatable {
    /// A manifest: one release, valid while its keys are trusted.
    case manifest(FetchURL)
    /// A channel file: releases with their rollouts and recalls, valid until it expires.
    case channel(FetchURL)

    /// The address, whatever its kind.
    public var url: FetchURL {
        switch self {
        case .manifest(let url), .channel(let url): url
        }
    }
}
