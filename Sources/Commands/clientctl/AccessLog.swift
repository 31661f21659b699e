import BundleDisk
import BundleServe
import BundleValues
import Synchronization

/// A line an answer, written on a thread of its own: whoever reads the log slowly slows no server.
final class AccessLog: Sendable {
    private static let mostWaiting = 4096

    private let path: String?
    private let file: Mutex<File?>
    private let worker: SerialWorker
    private let waiting = Atomic(0)
    private let lost = Atomic(0)

    /// Writes to the file at `path`, behind what is in it; to standard error for nil.
    init(to path: String?) throws {
        self.path = path
        file = Mutex(try path.map { try File.open(appending: $0) })
        worker = try SerialWorker()
    }

    /// Whether it is a file, which is reopened, and not standard error.
    var isFile: Bool { path != nil }

    /// Takes an entry; while too many wait to be written, further ones are only counted.
    func note(_ entry: AccessEntry) {
        if waiting.wrappingAdd(1, ordering: .relaxed).newValue > Self.mostWaiting {
            waiting.wrappingSubtract(1, ordering: .relaxed)
            lost.wrappingAdd(1, ordering: .relaxed)
            return
        }
        worker.submit { [self] in
            waiting.wrappingSubtract(1, ordering: .relaxed)
            let lost = lost.exchange(0, ordering: .relaxed)
            if lost > 0 { write("- \(lost) lines lost, written too slowly") }
            write(entry.line)
        }
    }

    private func write(_ line: String) {
        guard let file = file.withLock({ $0 }) else { return Output.line(line) }
        // A full disk takes the log, not the service.
        try? Array("\(PrintableText.line(line))\n".utf8).withUnsafeBytes { try file.write($0) }
    }

    /// Goes on in the file that has the path now, after what waits: a log that was renamed stays as it is.
    func reopen() throws {
        guard let path else { return }
        let fresh = try File.open(appending: path)
        worker.submit { [self] in file.withLock { $0 = fresh } }
    }

    /// Writes what waits; the last call.
    func finish() { worker.finish() }
}
