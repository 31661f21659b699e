import Glibc

/// A private folder that is removed when the value is deinitialized.
package final class TemporaryDirectory: Sendable {
    /// The folder, with mode 0700.
    package let directory: Directory
    private let parent: Directory
    private let name: String

    /// The folder for temporary files: `$TMPDIR` or `/tmp`.
    package static var parentPath: String { getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp" }

    package init(in parent: String = TemporaryDirectory.parentPath) throws(DiskError) {
        self.parent = try Directory.open(parent)
        name = randomName("clientctl-")
        try self.parent.makeDirectory(name, mode: 0o700)
        directory = try self.parent.directory(name)
    }

    deinit { try? parent.removeTree(name) }
}

/// Returns `prefix` with 64 random bits in hexadecimal.
package func randomName(_ prefix: String) -> String {
    let digits = String(UInt64.random(in: .min ... .max), radix: 16)
    return prefix + String(repeating: "0", count: 16 - digits.count) + digits
}
