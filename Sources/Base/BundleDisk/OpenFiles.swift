import CLinux
package import CLibrary

/// The open files and sockets of the process.
package enum OpenFiles {
    /// Raises the limit to its maximum and returns it.
    package static func raiseLimit() -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1024 }
        limit.rlim_cur = limit.rlim_max
        setrlimit(resource, &limit)
        return getrlimit(resource, &limit) == 0 ? Int(clamping: limit.rlim_cur) : 1024
    }

    /// Creates a pipe. Programs that are started do not inherit its ends.
    package static func pipe() throws(DiskError) -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        guard CLibrary.pipe(&ends) == 0 else { throw DiskError("open", at: "a pipe", code: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// Closes all descriptors from `first` on in a program that is started with `actions`. Some libraries open
    /// descriptors that programs inherit, and an inherited connection keeps its port in use.
    package static func keep(
        from first: Int32, outOf actions: inout posix_spawn_file_actions_t
    ) throws(DiskError) {
        _ = try checkedNegative(clinux_close_from(&actions, first), to: "spawn", at: "a program")
    }
}
