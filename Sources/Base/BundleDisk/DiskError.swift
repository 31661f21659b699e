import CLibrary

/// A failed system call with its path and its error number.
package struct DiskError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The class of the error, which determines the remedy.
    package enum Kind: Sendable {
        case full, permission, missing, exists, unsuitable, crossesDevice, busy, tooManyLinks, exhausted, refused,
            damaged
    }

    /// The operation when a folder was expected but a file was found.
    package static let asFolder = "open as a folder"

    /// The operation as a verb, such as "create" or "rename".
    package let operation: String
    /// The path as given, relative to its directory.
    package let path: String
    /// The error number.
    package let code: Int32

    package init(_ operation: String, at path: String, code: Int32) {
        self.operation = operation
        self.path = path
        self.code = code
    }

    /// The class of the error. Unknown error numbers count as damage.
    package var kind: Kind {
        switch code {
        case ENOSPC, EDQUOT: .full
        // The path has another kind than expected, or is too long.
        case ENOTDIR, EISDIR, ELOOP, EINVAL, EOVERFLOW, ENXIO, ENAMETOOLONG: .unsuitable
        case EACCES, EPERM, EROFS: .permission
        case ENOENT: .missing
        case EEXIST, ENOTEMPTY: .exists
        case EXDEV: .crossesDevice
        // A mount point can be neither removed nor renamed.
        case EWOULDBLOCK, EBUSY: .busy
        case EMLINK: .tooManyLinks
        // A limit of the process or the machine, not of the disk.
        case EMFILE, ENFILE, ENOMEM, EFBIG: .exhausted
        // The kernel or a sandbox does not allow the call.
        case ENOSYS, EOPNOTSUPP: .refused
        default: .damaged
        }
    }

    /// Whether the disk is full or read-only.
    package var isWriteRefusal: Bool { kind == .full || code == EROFS }

    /// Whether existing bytes cannot be read, so that another copy of them can help.
    package var isUnreadable: Bool { [EIO, EUCLEAN, EBADMSG].contains(code) }

    package var description: String {
        "cannot \(operation) \(path): \(String(cString: strerror(code)))"
    }
}

/// Returns the result of a C function, or throws `errno`.
func checked<Value: BinaryInteger>(
    _ result: Value, to operation: String, at path: @autoclosure () -> String
) throws(DiskError) -> Value {
    if result >= 0 { return result }
    throw DiskError(operation, at: path(), code: errno)
}

/// Returns the result of a `CLinux` function, or throws its `-errno`.
func checkedNegative<Value: BinaryInteger>(
    _ result: Value, to operation: String, at path: @autoclosure () -> String
) throws(DiskError) -> Value {
    if result >= 0 { return result }
    throw DiskError(operation, at: path(), code: Int32(truncatingIfNeeded: -Int(result)))
}
