package import BundleCore
import BundleValues

/// One source of clients, joined to the device: what a command or a shell does with it, whatever kind it is.
package protocol DeviceSource: Sendable {
    /// What `update` would do, with every rule's answer. Changes nothing.
    func check(explaining: Bool) async throws -> CheckFindings

    /// Brings the newest client into the store.
    func update() async throws -> UpdateOutcome

    /// The same for a shell, which may ask again while an update runs.
    func follow() async throws -> UpdateOutcome

    /// How often the source asked to be checked when it last answered `follow`; nil where it did not say.
    var pace: PollPace? { get async }
}

extension DeviceSource {
    /// One check by a shell.
    var step: UpdateStep { { await .of(pace: { await pace }) { _ = try await follow() } } }
}

/// A source of any kind, with the updates of one process.
struct JoinedSource<Source: UpdateSource>: DeviceSource {
    private let updater: Updater<Source>
    private let runner: UpdateRunner<Source>
    private let repair: @Sendable () throws -> StoreRepair
    private let warn: @Sendable (String) -> Void

    /// `repair` mends what an update found damaged, and `warn` hears of it. It is made only then: a seed that is lost keeps nobody
    /// from updating.
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

    /// Mends the client that a delta could not build on. The release is installed, so whatever fails here is only told.
    private func mending(_ outcome: UpdateOutcome) async -> UpdateOutcome {
        guard case .installed(_, let installed) = outcome, installed.route?.reason == .damagedBase else {
            return outcome
        }
        do {
            let report = try await repair().run()
            let files = report.mended.count == 1 ? "1 file" : "\(report.mended.count) files"
            warn(
                "a client that a delta builds on was damaged: repair restored \(files), and \(report.damage.count) stay damaged"
            )
        } catch {
            warn("\(UpdateFailure(error).message) Run clientctl repair.")
        }
        return outcome
    }
}
