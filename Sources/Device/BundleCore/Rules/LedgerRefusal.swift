import BundleFormats
import BundleValues

/// The reason why a change was not applied to a ledger.
enum LedgerRefusal: Sendable, Equatable {
    /// The store belongs to another application.
    case boundTo(appId: String, asked: String)
    /// The client is not installed.
    case notInstalled(ClientVersion)
    /// The client is blocked, or its channel recalled it.
    case recalled(ClientVersion)
    /// The client is the current, previous, next or fallback client.
    case hasRole(ClientVersion)
    /// The token does not belong to the last launch.
    case otherLaunch(of: ClientName, last: Launch?)
    /// The launch is already confirmed.
    case confirmedBefore(ClientName)
    /// The launch has already failed.
    case failedBefore(ClientName, StartFailure?)
    /// `RollBackRule` refuses to roll back.
    case noWayBack(RollBackRule.RollBackRefusal)
}

extension LedgerRefusal {
    var failure: UpdateFailure {
        switch self {
        case .boundTo(let bound, let asked):
            UpdateFailure(
                .appMismatch, subject: asked,
                "The store belongs to \(bound), not to \(asked): check --app-id, or use another store.")
        case .notInstalled(let version):
            UpdateFailure(
                .usage, subject: version.description,
                "\(ClientName.installed(version)) is not installed. Prepare another client.")
        case .recalled(let version):
            UpdateFailure(
                .versionBlocked, subject: version.description,
                "\(ClientName.installed(version)) must not run. Prepare another client.")
        case .hasRole(let version):
            UpdateFailure(
                .usage, subject: version.description,
                "\(ClientName.installed(version)) is the current, previous, next or fallback client, so it is not removed."
            )
        case .otherLaunch(let name, let last):
            UpdateFailure(
                .versionMismatch, subject: "\(name)",
                "The token is not from the last launch of \(name) (last launch: "
                    + "\(last.map { "\($0.name) at \($0.at)" } ?? "none")). "
                    + "Use the token of the last `clientctl launch`.")
        case .confirmedBefore(let name):
            UpdateFailure(
                .versionMismatch, subject: "\(name)",
                "This launch of \(name) is already confirmed. To leave it, use `clientctl rollback`.")
        case .failedBefore(let name, let failure):
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                "\(name) was rolled back already: \(failure?.description ?? "its launch failed"). Launch again.")
        case .noWayBack(let refusal): refusal.failure
        }
    }
}
