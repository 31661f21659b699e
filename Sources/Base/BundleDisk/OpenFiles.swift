import CLinux
package import Glibc

/// The files and sockets that the process has open.
package enum OpenFiles {
    /// Raises the number to what the system allows at most; gives it.
    package static func raiseLimit() -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1024 }
        limit.rlim_cur = limit.rlim_max
        setrlimit(resource, &limit)
        return getrlimit(resource, &limit) == 0 ? Int(clamping: limit.rlim_cur) : 1024
    }

    /// Keeps those from `first` up from a program that is started so. Not every library does that itself: a connection that a
    /// program has inherited never ends, and its port is never free.
    package static func keep(
        from first: Int32, outOf actions: inout posix_spawn_file_actions_t
    ) throws(DiskError) {
        _ = try checkedNegative(clinux_close_from(&actions, first), "spawn", "a program")
    }
}
