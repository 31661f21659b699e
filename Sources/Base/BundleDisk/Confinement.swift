import CLinux
import CLibrary

/// A permanent restriction of the process by Landlock. The process can then change files only in the given folders and
/// cannot start programs, even if a fault or a malicious file takes control of it.
package struct Confinement: Equatable, Sendable {
    /// The support of the kernel for Landlock.
    package enum Support: Equatable, Sendable {
        /// The kernel supports this version of Landlock.
        case offered(version: Int)
        /// The kernel does not support Landlock, or too old a version.
        case missing(reason: String)
    }

    /// Folders in which the process may create, change and remove files. For a missing folder, the nearest existing
    /// parent counts.
    private let folders: [String]
    /// Further folders in which the process may change files. They are created first, so that their parents stay inaccessible.
    private let made: [String]
    /// Existing files that the process may write to, such as devices.
    private let files: [String]

    /// Allows changes in `folders`, in `made` and to `files`. All other files are read-only.
    package init(folders: [String] = [], made: [String] = [], files: [String] = ["/dev/null"]) {
        self.folders = folders
        self.made = made
        self.files = files
    }

    package static var support: Support { support(answer: clinux_landlock_version()) }

    /// Interprets the result of the system call: a version, or a negative error number.
    static func support(answer: Int32) -> Support {
        switch answer {
        case 2...: .offered(version: Int(answer))
        // Landlock 1 refuses every rename between folders.
        case 0, 1: .missing(reason: "the Landlock of this kernel is too old; Linux 5.19 or newer is needed")
        case -ENOSYS: .missing(reason: "this kernel has no Landlock; Linux 5.19 or newer is needed")
        case -EOPNOTSUPP:
            .missing(reason: "Landlock is disabled on this machine (lsm= of the kernel's command line)")
        default: .missing(reason: "Landlock is not available (\(String(cString: strerror(-answer))))")
        }
    }

    /// Restricts this thread and all threads that it starts afterwards. It cannot be undone. It does nothing if the
    /// kernel does not support Landlock.
    ///
    /// Other running threads are not restricted, so call it before the first thread starts. Returns the folders that it
    /// created; the process may remove them while they are empty.
    @discardableResult
    package func enforce() throws(DiskError) -> [String] {
        guard case .offered(let version) = Self.support else { return [] }
        let new = made.filter { access($0, F_OK) != 0 && errno == ENOENT }
        for folder in new {
            // The code that needs the folder reports the error.
            do { try Directory.createAll(folder, mode: 0o700) } catch { continue }
        }
        let handled = CLINUX_MAY_FIRST | CLINUX_MAY_MOVE | (version >= 3 ? CLINUX_MAY_TRUNCATE : 0)
        let rules = try checkedNegative(clinux_landlock_ruleset(UInt64(handled)), to: "confine", at: "this process")
        defer { close(rules) }
        try Self.allow(Self.reading, at: "/", in: rules)
        for folder in made + folders {
            try Self.allow(Self.changing & handled, at: PathLook.nearest(to: folder), in: rules)
        }
        for folder in new { try Self.allow(CLINUX_MAY_REMOVE_FOLDER, at: PathLook.parent(of: folder), in: rules) }
        for file in files where access(file, F_OK) == 0 { try Self.allow(Self.writing & handled, at: file, in: rules) }
        _ = try checkedNegative(clinux_landlock_enforce(rules), to: "confine", at: "this process")
        return new
    }

    private static let reading = CLINUX_MAY_READ_FILE | CLINUX_MAY_READ_FOLDER
    private static let writing = CLINUX_MAY_READ_FILE | CLINUX_MAY_WRITE_FILE | CLINUX_MAY_TRUNCATE
    /// Excludes devices, links, sockets, pipes and execution.
    private static let changing =
        reading | writing | CLINUX_MAY_MAKE_FILE | CLINUX_MAY_MAKE_FOLDER | CLINUX_MAY_REMOVE_FILE
        | CLINUX_MAY_REMOVE_FOLDER | CLINUX_MAY_MOVE

    private static func allow(_ rights: Int, at path: String, in rules: Int32) throws(DiskError) {
        _ = try checkedNegative(clinux_landlock_allow(rules, UInt64(rights), path), to: "confine", at: path)
    }
}
