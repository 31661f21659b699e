import ArchiveSource
package import BundleCore
import BundleValues
import MeteorSource

/// One source of clients on a device, of any kind.
package protocol DeviceSource: Sendable {
    /// Returns the result that `update` would have, with the answer of every rule. Changes nothing.
    func check(explaining: Bool) async throws -> CheckFindings

    /// Installs the newest client.
    func update() async throws -> UpdateOutcome

    /// Installs the newest client for a shell, which may call it again during an update.
    func follow() async -> CheckResult
}

/// A source with the updates of one process.
struct JoinedSource<Source: UpdateSource>: DeviceSource {
    private let updater: Updater<Source>
    private let runner: UpdateRunner<Source>
    private let device: Launcher.LaunchDevice
    private let archives: FeedArchives?
    private let environment: Environment

    /// Creates a source of clients for `device`. A repair of what an update found damaged downloads from `archives`.
    init(
        _ updater: Updater<Source>, of device: Launcher.LaunchDevice, _ archives: FeedArchives?,
        _ environment: Environment
    ) {
        self.updater = updater
        self.device = device
        self.archives = archives
        self.environment = environment
        runner = UpdateRunner(updater)
    }

    func check(explaining: Bool) async throws -> CheckFindings {
        try await updater.check(explaining: explaining)
    }

    func update() async throws -> UpdateOutcome { await mending(try await updater.update()) }

    func follow() async -> CheckResult {
        do {
            let outcome = await mending(try await runner.check())
            var result = CheckResult(failures: [], hasResponse: true, pace: await runner.pace)
            switch outcome {
            case .waiting(_, _, _, let wait): result.resumesIn = wait.minutes.map { .seconds($0 * 60) }
            case .installed(_, let report): result.installed = [report]
            case .chosen, .upToDate, .notInRollout: break
            }
            return result
        } catch {
            return CheckResult(failures: [error], hasResponse: false, pace: await runner.pace)
        }
    }

    /// Repairs the client that a delta could not build on. The release is installed already, so a failure is only a
    /// warning.
    private func mending(_ outcome: UpdateOutcome) async -> UpdateOutcome {
        guard case .installed(_, let installed) = outcome, installed.route?.reason == .damagedBase else {
            return outcome
        }
        do {
            let report = try await repair().run()
            let files = report.repaired.count == 1 ? "1 file" : "\(report.repaired.count) files"
            environment.log(
                "a client that a delta builds on was damaged: repair restored \(files), and \(report.damage.count) stay damaged"
            )
        } catch {
            environment.log("\(UpdateFailure(error).message) Run clientctl repair.")
        }
        return outcome
    }

    /// Returns the repair of the store. The seed is opened only now, because a missing one must not prevent updates.
    private func repair() throws -> StoreRepair {
        let layout = device.layout ?? MeteorBundles(platform: .android)
        return StoreRepair(
            store: device.store, seed: try device.seed.map { try SeedFolder(at: $0, layout: layout) }, layout: layout,
            archives: archives, environment: environment)
    }
}
