/// One way that clients reach a store.
///
/// An offer that exists has passed the channel's checks. `stage` returns a complete tree or throws; a half-filled area
/// never leaves staging. Channels decide nothing and never touch the ledger.
public protocol UpdateChannel: Sendable {
    /// A verified release.
    associatedtype Offer: UpdateOffer

    /// The newest release that this channel vouches for.
    func latestOffer() async throws -> Offer

    /// Fills `area` with the complete tree of `offer`, linking what `installed` already has.
    func stage(_ offer: Offer, in area: StagingArea, reusing installed: ReuseIndex) async throws -> StagedBundle
}
