import CLinux
import Glibc

/// What a process gives up for good, with Landlock: whatever a fault in it, or a file that it reads, makes it do, it changes files
/// where it said that it would and nowhere else, and starts no program.
package struct Confinement: Equatable, Sendable {
    /// What the kernel can hold a process to.
    package enum Support: Equatable, Sendable {
        /// All of it, by this version of Landlock.
        case offered(version: Int)
        /// Nothing, and why.
        case missing(reason: String)
    }

    /// Folders in which files are made, changed and removed. Where one is not there yet, the next one above it that is.
    private let folders: [String]
    /// The same, made first where they are missing, so that what is above them stays out of reach.
    private let made: [String]
    /// Files that are written to as they are, where they are there: devices.
    private let files: [String]

    /// Changes in `folders` and those that are `made` for it, and to `files`; everything else can be read only.
    package init(folders: [String] = [], made: [String] = [], files: [String] = ["/dev/null"]) {
        self.folders = folders
        self.made = made
        self.files = files
    }

    /// What this kernel offers.
    package static var support: Support { support(answer: clinux_landlock_version()) }

    /// What the kernel's `answer` means: a version, or a negative reason.
    static func support(answer: Int32) -> Support {
        switch answer {
        case 2...: .offered(version: Int(answer))
        // It would refuse every rename from one folder into another.
        case 0, 1: .missing(reason: "Landlock of this kernel is too old; that of Linux 5.19 and newer is used")
        case -ENOSYS: .missing(reason: "this kernel has no Landlock; Linux 5.19 and newer can have it")
        case -EOPNOTSUPP:
            .missing(reason: "Landlock is switched off on this machine (lsm= of the kernel's command line)")
        default: .missing(reason: "Landlock cannot be asked for here (\(String(cString: strerror(-answer))))")
        }
    }

    /// Holds this thread, and every one that it starts from now on, to what was said. There is no way back. Nothing happens where the
    /// kernel offers nothing.
    ///
    /// Threads that run already are left as they are, so it comes before the first of them. Answers with the folders that it made, which
    /// may be removed while they are empty.
    @discardableResult
    package func enforce() throws(DiskError) -> [String] {
        guard case .offered(let version) = Self.support else { return [] }
        let new = made.filter { access($0, F_OK) != 0 && errno == ENOENT }
        for folder in new {
            // One that cannot be made is told of by whoever needs it.
            do { try Directory.createAll(folder, mode: 0o700) } catch { continue }
        }
        let handled = CLINUX_MAY_FIRST | CLINUX_MAY_MOVE | (version >= 3 ? CLINUX_MAY_TRUNCATE : 0)
        let rules = try checkedNegative(clinux_landlock_ruleset(UInt64(handled)), "confine", "this process")
        defer { close(rules) }
        try Self.allow(Self.reading, at: "/", in: rules)
        for folder in made + folders {
            try Self.allow(Self.changing & handled, at: PathLook.nearest(to: folder), in: rules)
        }
        for folder in new { try Self.allow(CLINUX_MAY_REMOVE_FOLDER, at: PathLook.parent(of: folder), in: rules) }
        for file in files where access(file, F_OK) == 0 { try Self.allow(Self.writing & handled, at: file, in: rules) }
        _ = try checkedNegative(clinux_landlock_enforce(rules), "confine", "this process")
        return new
    }

    private static let reading = CLINUX_MAY_READ_FILE | CLINUX_MAY_READ_FOLDER
    private static let writing = CLINUX_MAY_READ_FILE | CLINUX_MAY_WRITE_FILE | CLINUX_MAY_TRUNCATE
    /// No devices, links, sockets or pipes, and nothing that is run.
    private static let changing =
        reading | writing | CLINUX_MAY_MAKE_FILE | CLINUX_MAY_MAKE_FOLDER | CLINUX_MAY_REMOVE_FILE
        | CLINUX_MAY_REMOVE_FOLDER | CLINUX_MAY_MOVE

    private static func allow(_ rights: Int, at path: String, in rules: Int32) throws(DiskError) {
        _ = try checkedNegative(clinux_landlock_allow(rules, UInt64(rights), path), "confine", path)
    }
}
