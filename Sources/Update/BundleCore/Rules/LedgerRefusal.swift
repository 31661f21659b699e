import BundleValues

/// Why a ledger stays as it is.
enum LedgerRefusal: Sendable, Equatable {
    /// The store belongs to another application.
    case boundTo(appId: String, asked: String)
    /// There is no such client, or no longer.
    case notInstalled(ClientVersion)
    /// It is blocked, or its channel has recalled it.
    case recalled(ClientVersion)
    /// It runs, ran, runs next or is fallen back to.
    case hasRole(ClientVersion)
    /// The claim shows the token of no launch, or of an earlier one.
    case otherLaunch(of: ClientName, last: Launch?)
    /// The launch is good already.
    case confirmedBefore(ClientName)
    /// The launch has failed already.
    case failedBefore(ClientName, StartFailure?)
    /// The operator does not go back.
    case noWayBack(RollBackRule.Refusal)
}

extension LedgerRefusal {
    /// The public form.
    var failure: UpdateFailure {
        switch self {
        case .boundTo(let bound, let asked):
            UpdateFailure(
                .appMismatch, subject: asked,
                "The store belongs to \(bound), not to \(asked): check --app-id, or use another store.")
        case .notInstalled(let version):
            UpdateFailure(
                .usage, subject: version.description,
                "\(ClientName.installed(version)) is not installed: prepare another client.")
        case .recalled(let version):
            UpdateFailure(
                .versionBlocked, subject: version.description,
                "\(ClientName.installed(version)) may not run any more: prepare another client.")
        case .hasRole(let version):
            UpdateFailure(
                .usage, subject: version.description,
                "\(ClientName.installed(version)) runs, or is fallen back to: it stays.")
        case .otherLaunch(let name, let last):
            UpdateFailure(
                .versionMismatch, subject: "\(name)",
                "The token belongs to no running launch of \(name) (the last launch: "
                    + "\(last.map { "\($0.name) at \($0.at)" } ?? "none")). "
                    + "Use the token of the last `clientctl launch`.")
        case .confirmedBefore(let name):
            UpdateFailure(
                .versionMismatch, subject: "\(name)",
                "This launch of \(name) has been confirmed: use `clientctl rollback` to leave it all the same.")
        case .failedBefore(let name, let failure):
            UpdateFailure(
                .healthFailed, subject: "\(name)",
                "\(name) was rolled back already: \(failure?.description ?? "its launch failed"). Launch again.")
        case .noWayBack(let refusal): refusal.failure
        }
    }
}
