import Glibc

/// A fresh flat folder that is removed, with its files, with its last reference.
public final class TemporaryFolder: Sendable {
    /// Where it is.
    public let path: String

    /// Creates an empty one.
    public init() throws {
        var template = Array("/tmp/bundle-tests.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemCallError("mkdtemp") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        if let folder = opendir(path) {
            while let entry = readdir(folder) {
                withUnsafePointer(to: &entry.pointee.d_name) { name in
                    _ = name.withMemoryRebound(to: CChar.self, capacity: 256) { unlinkat(dirfd(folder), $0, 0) }
                }
            }
            closedir(folder)
        }
        rmdir(path)
    }

    /// The path of a file in it.
    public func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Writes a file and gives its path.
    @discardableResult
    public func write(_ bytes: [UInt8], to name: String) throws -> String {
        let descriptor = open(file(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SystemCallError("open") }
        defer { close(descriptor) }
        guard write(descriptor, bytes, bytes.count) == bytes.count else { throw SystemCallError("write") }
        return file(name)
    }

    private func write(_ descriptor: Int32, _ bytes: [UInt8], _ count: Int) -> Int {
        Glibc.write(descriptor, bytes, count)
    }
}
