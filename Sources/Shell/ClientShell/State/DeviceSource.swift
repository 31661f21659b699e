import ArchiveSource
package import BundleCore
import BundleValues
import MeteorSource
import Synchronization

/// One source of clients on a device, of any kind.
package protocol DeviceSource: Sendable {
    /// Returns the result that `update` would have, with the answer of every rule. Changes nothing.
    func check(explaining: Bool) async throws -> CheckFindings

    /// Installs the newest client.
    func update() async throws -> UpdateOutcome

    /// Installs the newest client for a shell, which may call it again during an update.
    func follow() async throws -> UpdateOutcome

    /// The interval that the source requested in its last response to `follow`; nil if it requested none.
    var pace: PollPace? { get async }
}

extension DeviceSource {
    /// A check for a shell.
    var step: UpdateStep {
        {
            let outcome = Mutex<UpdateOutcome?>(nil)
            var result = await CheckResult.of(pace: { await pace }) {
                let found = try await follow()
                outcome.withLock { $0 = found }
            }
            switch outcome.withLock({ $0 }) {
            case .waiting(_, _, _, let wait)?: result.resumesIn = wait.minutes.map { .seconds($0 * 60) }
            case .installed(_, let report)?: result.installed = [report]
            case .chosen?, .upToDate?, .notInRollout?, nil: break
            }
            return result
        }
    }
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

    var pace: PollPace? { get async { await runner.pace } }

    func check(explaining: Bool) async throws -> CheckFindings {
        try await updater.check(explaining: explaining)
    }

    func update() async throws -> UpdateOutcome { await mending(try await updater.update()) }

    func follow() async throws -> UpdateOutcome { await mending(try await runner.check()) }

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
