import Glibc

/// An exclusive advisory lock, released by the kernel when its holder dies.
package final class FileLock: Sendable {
    private let file: File

    private init(_ file: File) { self.file = file }

    /// Given back at once: closing alone would leave it held by a child between fork and exec, which has the descriptor too.
    deinit { flock(file.descriptor, LOCK_UN) }

    /// Takes the lock at `name` without waiting; nil when another process holds it.
    package static func take(_ name: String, in directory: Directory) throws(DiskError) -> FileLock? {
        try take(try directory.file(appending: name))
    }

    /// Takes the lock on the folder itself, where no file of ours may stand.
    package static func take(_ directory: Directory) throws(DiskError) -> FileLock? {
        let again = try directory.directory(".")
        return try take(File(duplicating: again))
    }

    /// Takes the lock on the folder itself, waiting up to `milliseconds` for another process that holds it briefly; nil
    /// when it still does then.
    package static func take(_ directory: Directory, waiting milliseconds: Int) throws(DiskError) -> FileLock? {
        for _ in 0..<max(1, milliseconds / 2) {
            if let lock = try take(directory) { return lock }
            usleep(2000)
        }
        return nil
    }

    /// The process that holds the lock on the folder itself, where the kernel says so: it does not tell of processes elsewhere, or on
    /// file systems in layers.
    package static func holder(of directory: Directory) throws(DiskError) -> Int32? {
        holder(of: try File(duplicating: directory).status())
    }

    /// The same of the lock at `name`; nil, too, where there is no such file.
    package static func holder(of name: String, in directory: Directory) throws(DiskError) -> Int32? {
        do throws(DiskError) {
            return holder(of: try directory.file(name).status())
        } catch {
            if error.kind == .missing { return nil }
            throw error
        }
    }

    private static func holder(of status: stat) -> Int32? {
        // As makedev(3) puts them together.
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

    /// Hexadecimal digits, at least two.
    private static func format(_ number: UInt64) -> String {
        (number < 16 ? "0" : "") + String(number, radix: 16)
    }

    /// Takes a shared lock on the folder itself: it is in use. Nil when another process holds it exclusively.
    package static func share(_ directory: Directory) throws(DiskError) -> FileLock? {
        try take(File(duplicating: try directory.directory(".")), LOCK_SH)
    }

    private static func take(_ file: File, _ kind: Int32 = LOCK_EX) throws(DiskError) -> FileLock? {
        while flock(file.descriptor, kind | LOCK_NB) < 0 {
            if errno == EWOULDBLOCK { return nil }
            if errno != EINTR { throw DiskError("lock", file.path, code: errno) }
        }
        return FileLock(file)
    }
}
