public import BundleCore
public import BundleValues

/// An event of a shell, for observers.
public enum ShellEvent: Sendable, Equatable {
    /// Another client is ready; `reload` shows it.
    case updateAvailable(ClientName)
    /// A download has `bytes` of its size, which is nil for a Meteor server. Sent at most twice a second, and at the end if the size is
    /// known.
    case downloading(bytes: Int, of: Int?)
    /// A check installed a client of `size` bytes, for which it downloaded `bytes`.
    case installed(ClientName, bytes: Int, size: Int)
    /// An operation failed; the running client is unaffected.
    case failed(UpdateFailure)
    /// A check for updates ended, with its failure. The next check follows after at most `next`; nil if none is planned.
    case checked(UpdateFailure?, next: Duration?)
    /// A client is shown. On trial it has to confirm its start.
    case launched(ClientName, isTrial: Bool)
    /// The client confirmed its start.
    case confirmed(ClientName)
    /// A page of the client reported an error.
    case complained(ClientName, String)
    /// A client that confirmed an earlier start did not confirm this one in time. It stays on the screen.
    case unconfirmed(ClientName, String)
    /// A client that confirmed its start shows nothing. It stays on the screen. With `isOver`, it shows something again.
    case blank(ClientName, isOver: Bool)
    /// The client did not start, and another one is shown.
    case rolledBack(ClientName, to: ClientName, UpdateFailure)
}

/// A request of a page that the shell cannot fulfil now.
public enum ShellError: ClassifiedFailure, Sendable, Equatable {
    /// There is no other client for `reload`.
    case noPendingVersion
    /// There is no other client for `reload` before the second trial of one that failed, which the message describes.
    case awaitsSecondTrial(String)
    /// The shell has not launched a client yet.
    case notStarted
    /// The client that a page reported as failed is not on trial.
    case notOnTrial

    /// The code for pages.
    public var code: String {
        switch self {
        case .noPendingVersion, .awaitsSecondTrial: "noPendingVersion"
        case .notStarted: "notStarted"
        case .notOnTrial: "notOnTrial"
        }
    }

    /// The failure for users. Its subject is the code.
    public var failure: UpdateFailure {
        let message =
            switch self {
            case .noPendingVersion: "No other client can be shown: check for updates first."
            case .awaitsSecondTrial(let message): message
            case .notOnTrial: "The running client is not on trial. Only a start that is not confirmed can fail."
            case .notStarted: "The shell shows no client yet: start it first."
            }
        return UpdateFailure(.configInvalid, subject: code, message)
    }
}
