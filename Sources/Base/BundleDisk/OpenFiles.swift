import Glibc

/// How many files and sockets the process may have open.
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
}
