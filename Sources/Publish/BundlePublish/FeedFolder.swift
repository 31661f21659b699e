import BundleValues
import BundleDisk

/// A feed's folder with its lock: whoever changes anything in it holds it from reading to writing.
final class FeedFolder {
    /// Changes to a channel take a moment; a packing publisher may take minutes.
    static let patience = 30_000

    let root: Directory
    private let lock: FileLock

    /// Opens the feed at `path` and keeps others out; waits up to `milliseconds` for somebody who is at work.
    init(at path: String, waiting milliseconds: Int) throws {
        root = try Directory.open(path)
        guard let lock = try FileLock.take(root, waiting: milliseconds) else {
            throw UpdateFailure(
                .storeLocked, subject: path, "Another clientctl publishes to \(path): wait for it to finish.")
        }
        self.lock = lock
    }

    /// Replaces `name` in `folder`, which is created where it is missing, whole and durably.
    func replace(_ name: String, in folder: String, with bytes: [UInt8]) throws {
        try root.directory(creating: folder).replaceFile(name, with: bytes)
        try root.sync()
    }

    /// Makes the names in `folder`, where there is one, and in the feed durable: "already so" holds after a power cut too, even
    /// if whoever wrote them was stopped before that.
    func sync(_ folder: String) throws {
        if case .directory? = try root.kind(of: folder) { try root.directory(folder).sync() }
        try root.sync()
    }
}
