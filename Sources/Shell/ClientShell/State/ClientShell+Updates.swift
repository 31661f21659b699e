import BundleCore
import BundleValues

extension ClientShell {
    /// Whether the shell has a seed, which guests see. It may be damaged.
    package nonisolated var hasSeed: Bool { configuration.device.seed != nil }

    /// Whether the store is empty, there is no seed, and the shell polls a feed.
    package var waitsForFirstClient: Bool {
        !hasSeed && checks.isPolling && (try? launcher.inventory().bundles.isEmpty) == true
    }

    /// Checks for an update and installs it. A client that failed once becomes available again. Throws the failure of the check,
    /// which is also an event.
    ///
    /// A shell without an update step only reads the store.
    public func checkForUpdates() async throws {
        if let failure = await check() { throw failure }
    }

    /// Plans a check at a random moment within `limit`, or within the channel's jitter. Returns at once. A shell that does not
    /// poll does not check.
    public func checkSoon(within limit: Duration? = nil) async { await checks.request(within: limit) }

    /// Plans a check within the channel's jitter, or within a minute for an urgent notification.
    package func checkSoon(isUrgent: Bool) async { await checks.request(within: nil, isUrgent: isUrgent) }

    /// Checks for an update. Returns its failure.
    func check() async -> UpdateFailure? {
        // The removal of older clients locks the store, which must not fail the check.
        await removed()
        let result = await checks.update()
        // Concurrent checks share one installation.
        for report in result.installed where report.bundle == nil || report.bundle?.entry != lastInstalled {
            lastInstalled = report.bundle?.entry
            let size = report.bundle?.entry.installedSize ?? 0
            observers.yield(.installed(report.name, bytes: report.bytesDownloaded, size: size))
        }
        let failure = result.failures.first.map { UpdateFailure($0) }
        let isAnswered = failure.map(Self.isOfOffer) ?? true
        if let failure, failure != offerFailure { observers.yield(.failed(failure)) }
        if isAnswered { offerFailure = failure }
        checkFailure = isAnswered ? nil : failure
        // The update of one source is used even if others failed.
        if failure == nil || result.hasResponse { send(.inspect(retrying: true)) }
        observers.yield(.checked(isAnswered ? nil : failure, next: await checks.ended(result)))
        removeUnused()
        return failure
    }

    /// Returns whether the failure is a property of the feed's offer, so every check repeats it until the offer changes.
    private static func isOfOffer(_ failure: UpdateFailure) -> Bool {
        failure.code == .versionBlocked || failure.code == .incompatibleShell
    }
}
