import Glibc

/// A private folder that is gone when the value is.
package final class TemporaryDirectory: Sendable {
    /// The folder, mode 0700.
    package let directory: Directory
    private let parent: Directory
    private let name: String

    /// Where they are made: `$TMPDIR`, or `/tmp`.
    package static var place: String { getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp" }

    /// Creates a folder below `parent`.
    package init(in parent: String = TemporaryDirectory.place) throws(DiskError) {
        self.parent = try Directory.open(parent)
        name = randomName("clientctl-")
        try self.parent.makeDirectory(name, mode: 0o700)
        directory = try self.parent.directory(name)
    }

    deinit { try? parent.removeTree(name) }
}

/// A name that no other attempt uses: `prefix` and 64 random bits in hex.
package func randomName(_ prefix: String) -> String {
    let digits = String(UInt64.random(in: .min ... .max), radix: 16)
    return prefix + String(repeating: "0", count: 16 - digits.count) + digits
}
