package import BundleDisk
import Glibc

/// A new folder that is removed with its content with its last reference.
package final class TemporaryFolder: Sendable {
    package let path: String

    /// The parent folder: `TMPDIR`, otherwise a folder in memory if there is enough space, otherwise /tmp.
    package static let usualParent = getenv("TMPDIR").map { String(cString: $0) } ?? inMemory() ?? "/tmp"

    private static let memory = "/dev/shm/swap-clients-tests."
    /// `ST_NOEXEC` of statvfs(3), which Glibc's module does not export.
    private static let noExec: UInt = 8

    /// Creates a folder of this process in /dev/shm, where durable writes are cheap. It removes the folders of killed
    /// processes.
    ///
    /// - Returns: nil if less than 4 GiB are free there, if programs may not run there, or if a control group limits memory to less
    ///   than 8 GiB.
    private static func inMemory() -> String? {
        var file = statvfs()
        guard statvfs("/dev/shm", &file) == 0, file.f_flag & noExec == 0,
            UInt64(file.f_bavail) * UInt64(file.f_frsize) >= 4 << 30
        else { return nil }
        let limit = (try? contents(ofFile: "/sys/fs/cgroup/memory.max")).map { String(decoding: $0, as: UTF8.self) }
        if let limit = limit.flatMap({ Int($0.dropLast()) }), limit < 8 << 30 { return nil }
        var found = glob_t()
        defer { globfree(&found) }
        if glob(memory + "*", 0, nil, &found) == 0 {
            for index in 0..<Int(found.gl_pathc) {
                guard let path = found.gl_pathv[index].map({ String(cString: $0) }),
                    let process = Int32(path.dropFirst(memory.count)), kill(process, 0) != 0, errno == ESRCH
                else { continue }
                remove(Array(path.utf8CString))
            }
        }
        let path = memory + String(getpid())
        guard mkdir(path, 0o755) == 0 || errno == EEXIST else { return nil }
        atexit { rmdir(TemporaryFolder.memory + String(getpid())) }
        return path
    }

    /// Creates a folder on another file system than that of `path`. Returns nil if there is none.
    package convenience init?(elsewhereThan path: String) throws {
        let here = Self.fileSystem(of: path)
        let others = ["/dev/shm", "/tmp", "/var/tmp"].filter {
            access($0, W_OK) == 0 && Self.fileSystem(of: $0) != here
        }
        guard let parent = others.first else { return nil }
        try self.init(under: parent)
    }

    private static func fileSystem(of path: String) -> dev_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_dev : nil
    }

    /// Creates a folder in `parent`.
    package init(under parent: String = usualParent) throws {
        var template = Array("\(parent)/bundle-tests.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemCallError("mkdtemp") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { Self.remove(Array(path.utf8CString)) }

    /// Removes a file, or a folder with its content. Names are bytes because tests create invalid ones.
    private static func remove(_ path: [CChar]) {
        if unlink(path) == 0 { return }
        chmod(path, 0o700)
        if let folder = opendir(path) {
            while let entry = readdir(folder) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                    name.withMemoryRebound(to: CChar.self, capacity: 256) { start in
                        Array(UnsafeBufferPointer(start: start, count: strlen(start)))
                    }
                }
                if name == [0x2E] || name == [0x2E, 0x2E] { continue }
                remove(path.dropLast() + [0x2F] + name + [0])
            }
            closedir(folder)
        }
        rmdir(path)
    }

    /// Returns the path of a file.
    package func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file and returns its path.
    @discardableResult
    package func write(_ bytes: [UInt8], to name: String) throws -> String {
        let descriptor = open(file(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallError("open") }
        defer { close(descriptor) }
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else { throw SystemCallError("write") }
        return file(name)
    }

    /// Creates a folder with its missing parents and returns its path.
    @discardableResult
    package func makeFolder(_ name: String) throws -> String {
        var made = path
        for part in name.split(separator: "/") {
            made += "/\(part)"
            guard mkdir(made, 0o755) == 0 || errno == EEXIST else { throw SystemCallError("mkdir \(made)") }
        }
        return made
    }

    /// Writes files into a new folder `name` and returns its path.
    @discardableResult
    package func writeTree(_ files: [String: [UInt8]], to name: String) throws -> String {
        try makeFolder(name)
        for (path, bytes) in files {
            if let slash = path.lastIndex(of: "/") { try makeFolder("\(name)/\(path[..<slash])") }
            try write(bytes, to: "\(name)/\(path)")
        }
        return file(name)
    }
}

extension TemporaryDirectory {
    /// Creates a temporary directory in the folder of the tests.
    package static func ofTests() throws(DiskError) -> TemporaryDirectory {
        try TemporaryDirectory(in: TemporaryFolder.usualParent)
    }
}
