public import BundleCore

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
