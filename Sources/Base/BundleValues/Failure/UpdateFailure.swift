public import BundleDisk
import CLibrary

/// An error with a public code, the object that was refused, and a message for people with the next step.
public struct UpdateFailure: Error, Equatable, Sendable, CustomStringConvertible {
    /// The code, by which programs tell failures apart. The guide has a page for each.
    public let code: FailureCode
    /// The version, path, URL or rule that the failure is about.
    public let subject: String
    /// One or two sentences: the failure and the next step.
    public let message: String
    /// The oldest shell that can run the client, if this shell is too old.
    package let neededShell: SemanticVersion?
    /// The HTTP status of the server; nil for other failures.
    package let status: Int?

    package init(
        _ code: FailureCode, subject: String, _ message: String, neededShell: SemanticVersion? = nil, status: Int? = nil
    ) {
        self.neededShell = neededShell
        self.status = status
        self.code = code
        self.subject = subject
        self.message = message
    }

    /// The same as `message`.
    public var description: String { message }

    /// Converts any error. An error that is not a `ClassifiedFailure` gets the code `internal`.
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
    /// Whether the failure can be due to a server that published another version during the download.
    public var mayResultFromServerChange: Bool {
        switch code {
        case .versionMismatch, .digestMismatch, .sizeMismatch, .httpStatus: true
        default: false
        }
    }
}

/// An error that maps to a public code.
public protocol ClassifiedFailure: Error {
    /// The error with its public code and message.
    var failure: UpdateFailure { get }
}

extension DiskError: ClassifiedFailure {
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
                .configInvalid, subject: path, "\(path) is of the wrong kind: \(self). Check the path.")
        case .exhausted:
            UpdateFailure(
                .resourcesExhausted, subject: path,
                "This machine has reached a limit: \(self). \(Self.remedy(for: code)), then run it again.")
        case .refused:
            UpdateFailure(
                .configInvalid, subject: path,
                "This system refused a required call: \(self). Allow the call in the container or its seccomp profile, or "
                    + "use another file system or a newer kernel.")
        case .crossesDevice,
            .busy where code != EWOULDBLOCK:
            UpdateFailure(
                .permissionDenied, subject: path,
                "Not allowed: \(self). It is a mount point or in use: unmount it, or end the program that uses it.")
        case .exists, .busy, .tooManyLinks, .damaged:
            UpdateFailure(.internal, subject: path, "The disk refused: \(self). Check the disk, then run it again.")
        }
    }
}

extension DiskError {
    private static func remedy(for code: Int32) -> String {
        switch code {
        case ENOMEM: "Free memory, or raise the limit on it (ulimit -v, MemoryMax=)"
        case EFBIG: "Raise the limit on the size of files (ulimit -f, LimitFSIZE=), or use another file system"
        default: "Raise the limit on open files (ulimit -n, LimitNOFILE=)"
        }
    }
}

extension FetchError: ClassifiedFailure {
    /// Separates a server that answered with an error from a server that did not answer.
    public var failure: UpdateFailure {
        switch self {
        case .httpStatus(let status, let url, _):
            UpdateFailure(.httpStatus, subject: url.display, description, status: status)
        case .tooLarge(_, let url): UpdateFailure(.sizeMismatch, subject: url.display, description)
        case .fileMissing(let url): UpdateFailure(.configInvalid, subject: url.display, description)
        case .filePermission(let url): UpdateFailure(.permissionDenied, subject: url.display, description)
        case .exhausted(let url, _): UpdateFailure(.resourcesExhausted, subject: url.display, description)
        case .libraryMissing(let url, _): UpdateFailure(.configInvalid, subject: url.display, description)
        case .unsupportedURL(let text, _): UpdateFailure(.configInvalid, subject: text, description)
        case .unreachable(let url, _), .invalidResponse(let url, _), .tooSlow(let url), .timedOut(let url),
            .tlsFailed(let url, _):
            UpdateFailure(.networkUnavailable, subject: url.display, description)
        case .redirectRefused(let url, _, _): UpdateFailure(.networkUnavailable, subject: url.display, description)
        }
    }
}
