public import BundleCore

extension TrustChain {
    /// Follows the chain from `known` as far as the feed at `folder`, an address that ends in a slash, has it: the newest root,
    /// which is not out of date at `now`. What devices do, without a store.
    public static func newest(
        after known: VerifiedTrustRoot, inFeed folder: FetchURL, fetcher: any Fetcher, now: Timestamp
    ) async throws -> VerifiedTrustRoot {
        let update = TrustUpdate(source: folder, folder: "trust", fetcher: fetcher)
        var trust = try CurrentTrust(.root(known), memory: FeedMemory())
        for _ in 0..<OfferRequest.maximumSteps {
            guard let next = try await update.next(after: trust) else { break }
            trust = next
        }
        try trust.requireFresh(at: TrustedTime.at(now, FeedMemory()))
        return trust.root ?? known
    }
}
