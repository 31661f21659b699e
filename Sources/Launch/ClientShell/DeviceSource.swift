package import BundleCore
package import BundleValues

/// One source of clients, joined to the device: what a command or a shell does with it, whatever kind it is.
package protocol DeviceSource: Sendable {
    /// What `update` would do, with every rule's answer. Changes nothing.
    func check(
        explaining: Bool
    ) async throws -> (offered: ClientVersion, decision: Decision, others: [Decision.Outcome])

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

    init(_ updater: Updater<Source>) {
        self.updater = updater
        runner = UpdateRunner(updater)
    }

    var pace: PollPace? { get async { await runner.pace } }

    func check(
        explaining: Bool
    ) async throws -> (offered: ClientVersion, decision: Decision, others: [Decision.Outcome]) {
        try await updater.check(explaining: explaining)
    }

    func update() async throws -> UpdateOutcome { try await updater.update() }

    func follow() async throws -> UpdateOutcome { try await runner.check() }
}
