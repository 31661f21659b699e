import BundleValues
import BundleDisk
import Glibc

/// The resources of a process and its store at one time.
struct Reading {
    /// The resident memory in bytes.
    let memory: Int
    let descriptors: Int
    let threads: Int
    /// The size and number of the store's files. Several links to a file count once.
    let storeBytes: Int
    let storeFiles: Int
    let ledgerBytes: Int

    init(store path: String) throws {
        memory = try Self.residentPages() * Int(sysconf(Int32(_SC_PAGESIZE)))
        // The listing opens a descriptor itself.
        descriptors = try Directory.open("/proc/self/fd").list().count - 2
        threads = try Directory.open("/proc/self/task").list().count
        var seen: [UInt64: Int] = [:]
        try Self.add(path, to: &seen)
        storeBytes = seen.values.reduce(0, +)
        storeFiles = seen.count
        ledgerBytes = Self.status(of: "\(path)/ledger.json").map { Int($0.st_size) } ?? 0
    }

    /// Files of /proc have no size.
    private static func residentPages() throws -> Int {
        let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = max(0, read(descriptor, &bytes, bytes.count))
        let words = String(decoding: bytes[..<count], as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Int(words[1]) else {
            throw UpdateFailure(.internal, subject: "/proc/self/statm", "There is no /proc/self/statm to read.")
        }
        return pages
    }

    private static func add(_ path: String, to seen: inout [UInt64: Int]) throws {
        for entry in try Directory.open(path).entries() {
            let below = "\(path)/\(String(decoding: entry.name, as: UTF8.self))"
            guard let status = status(of: below) else { continue }
            seen[UInt64(status.st_ino)] = Int(status.st_blocks) * 512
            if entry.kind == .directory { try add(below, to: &seen) }
        }
    }

    private static func status(of path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }
}
