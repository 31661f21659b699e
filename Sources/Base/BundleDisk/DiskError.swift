import Glibc

/// A refused system call: what was tried, on which path, and the kernel's reason.
package struct DiskError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What the reason means for the person who has to act on it.
    package enum Kind: Sendable {
        case full, permission, missing, exists, unsuitable, crossesDevice, busy, tooManyLinks, exhausted, refused,
            damaged
    }

    /// The call on a file where a folder was wanted.
    package static let asFolder = "open as a folder"

    /// The call, as a verb phrase: "create", "rename".
    package let operation: String
    /// The path as given, relative to the directory it was resolved in.
    package let path: String
    /// `errno`.
    package let code: Int32

    /// Describes the refusal `code` of `operation` on `path`.
    package init(_ operation: String, _ path: String, code: Int32) {
        self.operation = operation
        self.path = path
        self.code = code
    }

    /// The class of the refusal. Anything unexpected counts as damage: the disk did not do what it promised.
    package var kind: Kind {
        switch code {
        case ENOSPC, EDQUOT: .full
        // Not the kind of thing it should be: a folder, a link, a pipe, too long.
        case ENOTDIR, EISDIR, ELOOP, EINVAL, EOVERFLOW, ENXIO, ENAMETOOLONG: .unsuitable
        case EACCES, EPERM, EROFS: .permission
        case ENOENT: .missing
        case EEXIST, ENOTEMPTY: .exists
        case EXDEV: .crossesDevice
        case EWOULDBLOCK: .busy
        case EMLINK: .tooManyLinks
        // This process or machine has no more to give, whatever the disk.
        case EMFILE, ENFILE, ENOMEM, EFBIG: .exhausted
        // The kernel, or what shuts the process in, does not have the call.
        case ENOSYS, EOPNOTSUPP: .refused
        default: .damaged
        }
    }

    /// Whether the disk takes no writes at all at present: full, or mounted for reading only.
    package var isWriteRefusal: Bool { kind == .full || code == EROFS }

    /// Whether bytes cannot be read that are there: another copy of them may be.
    package var isUnreadable: Bool { [EIO, EUCLEAN, EBADMSG].contains(code) }

    /// One line: what failed, on what, and why.
    package var description: String {
        "cannot \(operation) \(path): \(String(cString: strerror(code)))"
    }
}

/// Turns a C result into a value or the error that `errno` names.
func checked<Value: BinaryInteger>(
    _ result: Value, _ operation: String, _ path: @autoclosure () -> String
) throws(DiskError) -> Value {
    if result >= 0 { return result }
    throw DiskError(operation, path(), code: errno)
}

/// Turns a `-errno` result of `CLinux` into a value or an error.
func checkedNegative<Value: BinaryInteger>(
    _ result: Value, _ operation: String, _ path: @autoclosure () -> String
) throws(DiskError) -> Value {
    if result >= 0 { return result }
    throw DiskError(operation, path(), code: Int32(truncatingIfNeeded: -Int(result)))
}
