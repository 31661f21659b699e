import BundleDisk
package import BundleValues

/// Admits the downloads of one device under its policy and that of an offer, pauses them, and counts the bytes on metered
/// links in the store.
package struct FetchGate: Sendable {
    /// The interval at which a running download is compared with the hours.
    private static let interval = Duration.seconds(1)

    /// The policy of the device.
    package var policy = FetchPolicy()
    /// The count and the rate limit of the process.
    package var traffic = Traffic()
    /// Returns whether the link of the device is metered.
    package var isMetered: @Sendable () async -> Bool = { false }
    /// The time of the device's clock.
    package var localTime: @Sendable () -> ActivationWindows.LocalTime = { .init(day: 0, minute: 0) }
    package var now: @Sendable () -> Timestamp = { .now }
    package var clock: any Clock<Duration> = SuspendingClock()
    private let store: String?

    /// Creates a gate without conditions. The ledger of `store` counts the bytes on metered links.
    package init(store: String? = nil) { self.store = store }

    /// Returns why a download waits; nil if it may start.
    package func wait(
        _ terms: FetchTerms, _ load: FetchRule.Load, bytes: Int?
    ) async -> FetchWait? {
        let joined = policy.joined(with: terms.policy, isUrgent: terms.isUrgent)
        let isMetered = joined.meteredBudget == nil ? false : await isMetered()
        return FetchRule.wait(joined, load, bytes: bytes, on: link(isMetered), at: localTime())
    }

    /// Runs a download of `bytes`, or of an unknown size. Throws `FetchPause` if it has to wait, or if its hours end.
    ///
    /// The budget is reserved before the first byte, so a device that loses power counts too much, never too little.
    package func admit<Value: Sendable>(
        _ terms: FetchTerms, _ load: FetchRule.Load, bytes: Int?,
        _ download: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let joined = policy.joined(with: terms.policy, isUrgent: terms.isUrgent)
        traffic.limit(rate: joined.rate)
        let isMetered = await isMetered()
        if let wait = FetchRule.wait(joined, load, bytes: bytes, on: link(isMetered), at: localTime()) {
            throw FetchPause(wait: wait)
        }
        guard isMetered else { return try await within(joined.hours, download) }
        let (reserved, before) = (bytes ?? 0, traffic.total)
        try count(reserved)
        defer { try? count(traffic.total - before - reserved) }
        return try await within(joined.hours, download)
    }

    /// Runs a download and cancels it when the hours end. Its part stays on the disk.
    private func within<Value: Sendable>(
        _ hours: [ActivationWindows], _ download: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if hours.isEmpty { return try await download() }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await download() }
            group.addTask {
                while hours.allSatisfy({ $0.isOpen(at: localTime()) }) { try await clock.sleep(for: Self.interval) }
                return nil
            }
            defer { group.cancelAll() }
            if let value = try await group.next() ?? nil { return value }
            group.cancelAll()
            // The download may have ended at the same time.
            if case .success(let value?)? = await group.nextResult() { return value }
            try Task.checkCancellation()
            var policy = FetchPolicy()
            policy.hours = hours
            throw FetchPause(
                wait: FetchRule.wait(policy, .files, bytes: nil, on: link(false), at: localTime())
                    ?? FetchWait(.hours, "the hours for downloads ended"))
        }
    }

    private func link(_ isMetered: Bool) -> FetchRule.Link {
        let ledger = isMetered ? store.flatMap { try? Inventory.read(at: $0).ledger } : nil
        return FetchRule.Link(isMetered: isMetered, used: MeteredUse.bytes(of: ledger?.metered, at: now()))
    }

    private func count(_ bytes: Int) throws {
        guard let store, bytes != 0 else { return }
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        _ = try LedgerKeeper(root: folders.root).apply([.metered(bytes, at: now())])
    }
}

/// A download waits, or was paused.
package struct FetchPause: ClassifiedFailure {
    package let wait: FetchWait

    package init(wait: FetchWait) { self.wait = wait }

    package var failure: UpdateFailure {
        UpdateFailure(
            .networkUnavailable, subject: wait.reason.rawValue,
            "The download waits: \(wait.description). Run the command again when the condition is met, or change the device's policy for downloads."
        )
    }
}
