public import BundleDisk
import Glibc

/// Why a step was refused: a public code, what was refused, and a sentence that says what to do next.
public struct UpdateFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// The public word.
    package let code: FailureCode
    /// What was refused: a version, a path, a rule and entry, a URL.
    public let subject: String
    /// What happened, on what, and what to do next.
    public let message: String
    /// The shell that is needed, where this one is too old.
    package let neededShell: SemanticVersion?

    /// States a refusal.
    package init(_ code: FailureCode, subject: String, _ message: String, neededShell: SemanticVersion? = nil) {
        self.neededShell = neededShell
        self.code = code
        self.subject = subject
        self.message = message
    }

    /// The message.
    public var description: String { message }

    /// Whatever was thrown, as one of the public reasons; what nobody classified is `internal`.
    public init(_ error: any Error) {
        switch error {
        case let failure as UpdateFailure: self = failure
        case let failure as any ClassifiedFailure: self = failure.failure
        case is CancellationError: self.init(.internal, subject: "cancelled", "The operation was cancelled.")
        default:
            self.init(.internal, subject: "\(type(of: error))", "Unexpected fault: \(error). Please report it.")
        }
    }
}

extension UpdateFailure {
    /// Whether a server that changed under a download explains it.
    public var mayComeFromAnotherVersion: Bool {
        switch code {
        case .versionMismatch, .digestMismatch, .sizeMismatch, .httpStatus: true
        default: false
        }
    }
}

/// An error that knows its public reason.
public protocol ClassifiedFailure: Error {
    /// The public form.
    var failure: UpdateFailure { get }
}

extension DiskError: ClassifiedFailure {
    /// Full and read-only disks have their own codes; the rest is a disk that does not do what it should.
    package var failure: UpdateFailure {
        switch kind {
        case .full:
            UpdateFailure(.diskFull, subject: path, "The disk is full: \(self). Free some space, then run it again.")
        case .permission:
            UpdateFailure(
                .permissionDenied, subject: path, "Not allowed: \(self). Check the owner and mode, or the mount.")
        case .missing where path.isEmpty:
            UpdateFailure(.configInvalid, subject: path, "A path is empty: give the path of a file or a folder.")
        case .missing:
            UpdateFailure(.configInvalid, subject: path, "\(path) does not exist. Check the path.")
        case .unsuitable where operation == Self.asFolder:
            UpdateFailure(.configInvalid, subject: path, "\(path) is a file. Name the folder that contains it.")
        case .unsuitable:
            UpdateFailure(
                .configInvalid, subject: path, "\(path) is not what is expected there: \(self). Check the path.")
        case .exhausted:
            UpdateFailure(
                .resourcesExhausted, subject: path,
                "This machine has no more to give: \(self). \(Self.relief(of: code)), then run it again.")
        case .refused:
            UpdateFailure(
                .configInvalid, subject: path,
                "This system does not do what is needed: \(self). Allow the call where clientctl is shut in (a container, seccomp), or "
                    + "use another file system or a newer kernel.")
        case .exists, .crossesDevice, .busy, .tooManyLinks, .damaged:
            UpdateFailure(.internal, subject: path, "The disk refused: \(self). Check the disk, then run it again.")
        }
    }
}

extension DiskError {
    /// What helps where something has run out.
    private static func relief(of code: Int32) -> String {
        switch code {
        case ENOMEM: "Free memory, or raise the limit on it (ulimit -v, MemoryMax=)"
        case EFBIG: "Raise the limit on the size of files (ulimit -f, LimitFSIZE=), or use another file system"
        default: "Raise the limit on open files (ulimit -n, LimitNOFILE=)"
        }
    }
}

extension FetchError: ClassifiedFailure {
    /// A server that said no is told apart from one that did not answer.
    public var failure: UpdateFailure {
        switch self {
        case .httpStatus(_, let url, _): UpdateFailure(.httpStatus, subject: url.display, description)
        case .tooLarge(_, let url): UpdateFailure(.sizeMismatch, subject: url.display, description)
        case .fileMissing(let url): UpdateFailure(.configInvalid, subject: url.display, description)
        case .filePermission(let url): UpdateFailure(.permissionDenied, subject: url.display, description)
        case .exhausted(let url, _): UpdateFailure(.resourcesExhausted, subject: url.display, description)
        case .unsupportedURL(let text, _): UpdateFailure(.configInvalid, subject: text, description)
        case .unreachable(let url, _), .invalidResponse(let url, _), .tooSlow(let url), .timedOut(let url),
            .tlsFailed(let url, _):
            UpdateFailure(.networkUnavailable, subject: url.display, description)
        case .redirectRefused(let url, _, _): UpdateFailure(.networkUnavailable, subject: url.display, description)
        }
    }
}
