import BundleDisk
import BundleServe
import BundleValues
import Synchronization

/// Writes one line per response on a separate thread, so that a slow reader of the log does not slow the server.
final class AccessLog: Sendable {
    private static let mostWaiting = 4096

    private let path: String?
    private let file: Mutex<File?>
    private let worker: SerialWorker
    private let waiting = Atomic(0)
    private let lost = Atomic(0)

    /// Appends to the file at `path`; nil writes to standard error.
    init(to path: String?) throws {
        self.path = path
        file = Mutex(try path.map { try File.open(appending: $0) })
        worker = try SerialWorker()
    }

    /// Whether the log is a file, which can be reopened.
    var isFile: Bool { path != nil }

    /// Queues an entry. If 4096 entries are queued, further entries are only counted.
    func note(_ entry: AccessEntry) {
        if waiting.wrappingAdd(1, ordering: .relaxed).newValue > Self.mostWaiting {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            lost.wrappingAdd(1, ordering: .relaxed)
            return
        }
        worker.submit { [self] in
            waiting.wrappingSubtract(1, ordering: .relaxed)
            let lost = lost.exchange(0, ordering: .relaxed)
            if lost > 0 { write("- \(lost) \(lost == 1 ? "line" : "lines") lost, written too slowly") }
            write(entry.line)
        }
    }

    private func write(_ line: String) {
        guard let file = file.withLock({ $0 }) else { return Output.line(line) }
        // A full disk loses lines of the log, but does not stop the server.
        try? Array("\(PrintableText.line(line))\n".utf8).withUnsafeBytes { try file.write($0) }
    }

    /// Opens the file at the path again, after the queued entries are written. A renamed log does not change then.
    func reopen() throws {
        guard let path else { return }
        let fresh = try File.open(appending: path)
        worker.submit { [self] in file.withLock { $0 = fresh } }
    }

    /// Writes the queued entries. Call this last.
    func finish() { worker.finish() }
}
