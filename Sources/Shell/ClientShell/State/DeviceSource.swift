package import BundleCore
import BundleValues
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
    private let repair: @Sendable () throws -> StoreRepair
    private let warn: @Sendable (String) -> Void

    /// Creates a source. `repair` creates the repair of damage that an update found; it is called only then, because
    /// a missing seed must not prevent updates. `warn` receives its result.
    init(
        _ updater: Updater<Source>, repair: @escaping @Sendable () throws -> StoreRepair,
        warn: @escaping @Sendable (String) -> Void
    ) {
        self.updater = updater
        self.repair = repair
        self.warn = warn
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
            warn(
                "a client that a delta builds on was damaged: repair restored \(files), and \(report.damage.count) stay damaged"
            )
        } catch {
            warn("\(UpdateFailure(error).message) Run clientctl repair.")
        }
        return outcome
    }
}
