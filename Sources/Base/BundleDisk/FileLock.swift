import CLibrary

/// An exclusive advisory lock. The kernel releases it when the process ends.
package final class FileLock: Sendable {
    private let file: File

    private init(_ file: File) { self.file = file }

    /// Unlocks explicitly: a child process between fork and exec shares the descriptor and would keep the lock after a
    /// close.
    deinit { flock(file.descriptor, LOCK_UN) }

    /// Locks the file `name` without waiting. Returns nil if another process holds the lock.
    package static func take(_ name: String, in directory: Directory) throws(DiskError) -> FileLock? {
        try take(try directory.file(appending: name))
    }

    /// Locks an open file without waiting. Returns nil if another process holds the lock.
    package static func take(_ file: File) throws(DiskError) -> FileLock? { try take(file, as: LOCK_EX) }

    /// Locks the directory itself, for folders in which no lock file may exist.
    package static func take(_ directory: Directory) throws(DiskError) -> FileLock? {
        try take(File(duplicating: try directory.directory(".")))
    }

    /// Locks the directory itself and waits up to `milliseconds`. Returns nil if another process still holds the lock.
    package static func take(_ directory: Directory, waiting milliseconds: Int) throws(DiskError) -> FileLock? {
        for _ in 0..<max(1, milliseconds / 2) {
            if let lock = try take(directory) { return lock }
            usleep(2000)
        }
        return nil
    }

    /// Takes a shared lock on the directory, which marks it as in use. Returns nil if another process holds an exclusive
    /// lock.
    package static func share(_ directory: Directory) throws(DiskError) -> FileLock? {
        try take(File(duplicating: try directory.directory(".")), as: LOCK_SH)
    }

    /// Returns the process that holds the lock on the directory, if the kernel reports it. It does not report processes
    /// of other machines, and none on layered file systems.
    package static func holder(of directory: Directory) throws(DiskError) -> Int32? {
        holder(of: try File(duplicating: directory).status())
    }

    /// Returns the process that holds the lock on a file. Returns nil if the file does not exist.
    package static func holder(of name: String, in directory: Directory) throws(DiskError) -> Int32? {
        do {
            return holder(of: try directory.file(name).status())
        } catch  where error.kind == .missing {
            return nil
        }
    }

    private static func holder(of status: stat) -> Int32? {
        // The reverse of makedev(3).
        let device = UInt64(status.st_dev)
        let major = (device >> 8) & 0xFFF | (device >> 32) & ~0xFFF
        let minor = device & 0xFF | (device >> 12) & ~0xFF
        let place = "\(format(major)):\(format(minor)):\(status.st_ino)"
        guard let locks = try? File.open(reading: "/proc/locks").head(1 << 20) else { return nil }
        for line in String(decoding: locks, as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count > 5, words[1] == "FLOCK", words[5] == place {
                return Int32(words[4]).flatMap { $0 > 0 ? $0 : nil }
            }
        }
        return nil
    }

    /// Returns at least two hexadecimal digits.
    private static func format(_ number: UInt64) -> String {
        (number < 16 ? "0" : "") + String(number, radix: 16)
    }

    private static func take(_ file: File, as kind: Int32) throws(DiskError) -> FileLock? {
        while flock(file.descriptor, kind | LOCK_NB) < 0 {
            if errno == EWOULDBLOCK { return nil }
            if errno != EINTR { throw DiskError("lock", at: file.path, code: errno) }
        }
        return FileLock(file)
    }
}
