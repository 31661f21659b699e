import BundleFormats
import BundleValues
import BundleDisk

extension Launcher {
    /// Records a launch durably, before the first byte is shown. From then on the launch needs a verdict; with
    /// `awaitsPage`, from the first report of its page on.
    ///
    /// A running trial of the same shell is ended without a failure. Returns nil if the client was blocked, recalled
    /// or removed since `prepare`; the caller prepares again.
    package func begin(_ prepared: PreparedLaunch, awaitsPage: Bool = false) throws -> Launched? {
        let token = try LaunchToken.random()
        let name = prepared.choice.name
        do {
            guard let ledger = try record(name, token, awaitsPage: awaitsPage), let launch = ledger.launch else {
                return nil
            }
            let failures = name.version.flatMap(ledger.record(of:))?.failures ?? []
            return Launched(
                prepared: prepared, token: token, isTrial: launch.isTrial, isRecorded: true,
                wasReportedFailed: failures.contains { $0.cause == .reported })
        } catch  where isRefusal(error) {
            refuseTrials()
            if try inventory().ledger.isOnTrial(name) { return nil }
            environment.log(
                "\(UpdateFailure(error).message) \(name) is confirmed, and is shown without a record of this launch.")
            return Launched(prepared: prepared, token: token, isTrial: false, isRecorded: false)
        }
    }

    /// Shows the seed to guests. Nothing is recorded, since the display for guests does not affect the other
    /// launches.
    package func show(_ prepared: PreparedLaunch) throws -> Launched {
        Launched(prepared: prepared, token: try .random(), isTrial: false, isRecorded: false)
    }

    /// Records a launch that the disk refused before. Returns the same launch if the disk still refuses.
    public func record(again launched: Launched) -> Launched {
        guard !launched.isRecorded, (try? record(launched.name, launched.token)) != nil else { return launched }
        return Launched(
            prepared: launched.prepared, token: launched.token, isTrial: launched.isTrial, isRecorded: true)
    }

    /// Stops the choice of clients on trial, because the disk refuses to record their launches.
    public func refuseTrials() { writes.refuse() }

    private func record(_ name: ClientName, _ token: LaunchToken, awaitsPage: Bool = false) throws -> Ledger? {
        let time = environment.now()
        let launch = LedgerChange.launched(
            try LaunchClaim(name, token), shell: device.shell, at: time, awaitsPage: awaitsPage)
        guard case .written(let update) = try keeper.propose(standing(at: time) + [launch]) else { return nil }
        writes.settle()
        keeper.updatePrevious(in: folders, environment: environment)
        return update.after.ledger
    }
}
