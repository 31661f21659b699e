import BundleFormats
import BundleDisk
package import BundleValues

/// Admits the downloads of one device under its policy and that of an offer, pauses them, and counts the bytes on metered
/// links in the store if a budget applies.
package struct FetchGate: Sendable {
    /// The interval at which a running download is compared with the hours.
    private static let interval = Duration.seconds(1)

    /// The policy of the device.
    package var policy = FetchPolicy()
    /// The count and the rate limit of the process.
    package var traffic = Traffic()
    /// Returns whether the link of the device is metered. Called only if a budget applies.
    package var isMetered: @Sendable () async -> Bool = { false }
    /// The time of the device's clock.
    package var localTime: @Sendable () -> ActivationWindows.LocalTime = { .init(day: 0, minute: 0) }
    /// The clocks of the counts and of running downloads.
    package var environment = Environment()
    private let store: String?
    private let hasSeed: Bool

    /// Creates a gate without conditions. The ledger of `store` counts the bytes on metered links. `hasSeed` is whether the shell has
    /// a seed, which the ledger contains only after the first launch.
    package init(store: String? = nil, hasSeed: Bool = false) {
        self.store = store
        self.hasSeed = hasSeed
    }

    /// Returns the reason why a download waits on a device with `inventory`; nil if it may start.
    package func wait(
        _ terms: FetchTerms, load: FetchRule.Load, bytes: Int?, in inventory: Inventory
    ) async -> FetchWait? {
        await wait(terms, load: load, bytes: bytes, hasClient: hasClient(inventory))
    }

    /// Returns the reason why a download waits on a device with the present store; nil if it may start.
    package func wait(_ terms: FetchTerms, load: FetchRule.Load, bytes: Int?) async -> FetchWait? {
        await wait(terms, load: load, bytes: bytes, hasClient: mayHaveClient)
    }

    private func wait(_ terms: FetchTerms, load: FetchRule.Load, bytes: Int?, hasClient: Bool) async -> FetchWait? {
        let joined = policy.joined(with: terms.policy, isUrgent: terms.isUrgent)
        let conditions = FetchRule.conditions(joined, hasClient: hasClient)
        return FetchRule.wait(conditions, load: load, bytes: bytes, on: await link(joined), at: localTime())
    }

    /// Whether the device has a client to show. A store that cannot be read says nothing about its clients.
    private var mayHaveClient: Bool { store.flatMap { try? Inventory.read(at: $0) }.map(hasClient) ?? true }

    private func hasClient(_ inventory: Inventory) -> Bool {
        let ledger = inventory.ledger
        return SelectionRule.select(inventory, shell: ledger.shell, hasSeed: hasSeed || ledger.seed != nil) != nil
    }

    /// Runs a download of `bytes`, or of an unknown size. Throws `FetchPause` if it has to wait, or if its hours end.
    ///
    /// The budget is reserved before the first byte, so a device that loses power counts too much, never too little.
    package func admit<Value: Sendable>(
        _ terms: FetchTerms, load: FetchRule.Load, bytes: Int?,
        _ download: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let joined = policy.joined(with: terms.policy, isUrgent: terms.isUrgent)
        traffic.limit(rate: joined.rate)
        let link = await link(joined)
        let conditions = FetchRule.conditions(joined, hasClient: mayHaveClient)
        if let wait = FetchRule.wait(conditions, load: load, bytes: bytes, on: link, at: localTime()) {
            throw FetchPause(wait: wait)
        }
        guard link.isMetered else { return try await within(conditions.hours, download) }
        let (reserved, before) = (bytes ?? 0, traffic.total)
        try count(reserved)
        defer { try? count(traffic.total - before - reserved) }
        return try await within(conditions.hours, download)
    }

    /// Runs a download and cancels it when the hours end. Its part stays on the disk.
    private func within<Value: Sendable>(
        _ hours: [ActivationWindows], _ download: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if hours.isEmpty { return try await download() }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await download() }
            group.addTask {
                while hours.allSatisfy({ $0.isOpen(at: localTime()) }) {
                    try await environment.clock.sleep(for: Self.interval)
                }
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
                wait: FetchRule.wait(policy, load: .files, bytes: nil, on: .free, at: localTime())
                    ?? FetchWait(.hours, "the hours for downloads ended"))
        }
    }

    /// Returns the network under a policy. Without a budget, the link is not asked for, and counts as one without costs.
    private func link(_ policy: FetchPolicy) async -> FetchRule.Link {
        guard policy.meteredBudget != nil, await isMetered() else { return .free }
        let ledger = store.flatMap { try? Inventory.read(at: $0).ledger }
        return FetchRule.Link(isMetered: true, used: MeteredUse.bytes(of: ledger?.metered, at: environment.now()))
    }

    private func count(_ bytes: Int) throws {
        guard let store, bytes != 0 else { return }
        let folders = try StoreFolders(below: try StoreFolders.openRoot(store))
        _ = try LedgerKeeper(root: folders.root).apply([.metered(bytes, at: environment.now())])
    }
}

/// A download waits, or was paused.
package struct FetchPause: ClassifiedFailure {
    package let wait: FetchWait

    package var failure: UpdateFailure {
        UpdateFailure(
            .networkUnavailable, subject: wait.reason.rawValue,
            "The download waits: \(wait.description). Run the command again when the condition is met, or change the device's policy for downloads."
        )
    }
}
