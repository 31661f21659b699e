import BundleValues
import BundleDisk

/// How long to wait for others who change the same feed, and whom to tell so.
package struct FeedWait: Sendable {
    /// They take a moment: nobody packs or signs with a command meanwhile.
    package static let standard = Duration.seconds(30)

    let limit: Duration
    let report: @Sendable (String) -> Void

    /// Waits for `limit`; `report` hears when the waiting begins.
    package init(_ limit: Duration = standard, report: @escaping @Sendable (String) -> Void = { _ in }) {
        self.limit = limit
        self.report = report
    }
}

/// A feed's folder with its lock: whoever changes anything in it holds it from the last look to the last rename.
final class FeedFolder {
    let root: Directory
    private let lock: FileLock

    /// Opens the feed at `path` and keeps others out, waiting for those who are at work.
    init(at path: String, _ wait: FeedWait) throws {
        root = try Directory.open(path)
        if let lock = try FileLock.take(root) {
            self.lock = lock
            return
        }
        let other = "another clientctl" + (try FileLock.holder(of: root).map { " (pid \($0))" } ?? "")
        if wait.limit > .zero { wait.report("waiting for \(other), which changes \(path)") }
        guard let lock = try FileLock.take(root, waiting: Int(min(wait.limit / .milliseconds(1), 1e9))) else {
            throw UpdateFailure(
                .storeLocked, subject: path,
                "The feed \(path) is being changed by \(other): let it finish, or give --wait more than \(DurationText(wait.limit))."
            )
        }
        self.lock = lock
    }

    /// Does `work` with the feed at `path` locked. What may take long, as a token that wants to be touched, is drafted before (nil
    /// where it does not), and anew where one of the `channels` changed meanwhile.
    static func change<Draft, Answer>(
        _ path: String, _ wait: FeedWait, channels: [String], draft: (Directory) throws -> Draft?,
        _ work: (FeedFolder, Draft?) throws -> Answer
    ) throws -> Answer {
        for _ in 0..<attempts {
            let root = try Directory.open(path)
            let before = try channels.map { try ChannelDesk.bytes(of: $0, in: root) }
            let drafted = try draft(root)
            let folder = try FeedFolder(at: path, wait)
            let isCurrent = try channels.map { try ChannelDesk.bytes(of: $0, in: folder.root) } == before
            if drafted == nil || isCurrent { return try work(folder, drafted) }
        }
        throw UpdateFailure(
            .storeLocked, subject: path,
            "Others changed the feed \(path) \(attempts) times while the signing command ran: run it again when they are done."
        )
    }

    private static let attempts = 8

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
