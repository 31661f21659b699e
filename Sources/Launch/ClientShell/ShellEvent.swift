public import BundleCore
public import BundleValues

/// What an observer sees of a shell.
public enum ShellEvent: Sendable, Equatable {
    /// Another client is ready to be shown; `reload` shows it.
    case updateAvailable(ClientName)
    /// Something failed; the client that runs is not touched by it.
    case failed(UpdateFailure)
    /// A check for updates is over, for this reason if it failed; the next one comes after that time at the latest, nil where none
    /// is planned.
    case checked(UpdateFailure?, next: Duration?)
    /// A client is shown; on trial it has to confirm its start.
    case launched(ClientName, isTrial: Bool)
    /// The client confirmed its start.
    case confirmed(ClientName)
    /// The client did not start; the other one is shown instead.
    case rolledBack(ClientName, to: ClientName, UpdateFailure)
}

/// What a page asked for and cannot have now.
public enum ShellError: String, ClassifiedFailure, Sendable {
    /// `reload` without another client to show.
    case noPendingVersion
    /// The shell has not launched a client yet.
    case notStarted

    /// The public form; `subject` is the word.
    public var failure: UpdateFailure {
        let message =
            switch self {
            case .noPendingVersion: "There is no other client to show: check for updates first."
            case .notStarted: "The shell shows no client yet: start it first."
            }
        return UpdateFailure(.configInvalid, subject: rawValue, message)
    }
}
