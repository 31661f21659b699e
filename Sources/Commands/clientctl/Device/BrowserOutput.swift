import BundleDisk
import BundleValues
import CLibrary
import Synchronization

/// Keeps the last lines that a browser writes. Browsers write many lines about nothing, so the log repeats only the last ones before an
/// unexpected end.
final class BrowserOutput: Sendable {
    private static let mostLines = 8
    private static let longestLine = 300
    /// The kept bytes, which are at least the lines that are shown.
    private static let mostBytes = 8 << 10

    /// The size of a pipe (pipe(7)).
    private static let pipeBytes = 64 << 10

    /// The descriptor to which the browser writes.
    let writing: Int32
    private let stop: Int32
    private let isStopped = Atomic(false)
    private let tail: Tail
    private let thread: BlockingThread

    /// The bytes that were read last.
    private final class Tail: Sendable {
        private let bytes = Mutex<[UInt8]>([])

        func add(_ more: ArraySlice<UInt8>) {
            bytes.withLock { bytes in
                bytes += more
                if bytes.count > mostBytes { bytes.removeFirst(bytes.count - mostBytes) }
            }
        }

        func lines() -> [ArraySlice<UInt8>] {
            bytes.withLock { $0.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") } }
        }
    }

    /// Starts to read. Throws `DiskError` or `ThreadFailure`.
    init() throws {
        let (reading, writing) = try OpenFiles.pipe()
        let (stopped, stop) = try OpenFiles.pipe()
        let tail = Tail()
        (self.writing, self.stop, self.tail) = (writing, stop, tail)
        thread = try BlockingThread {
            Self.read(reading, until: stopped) { tail.add($0) }
            close(reading)
            close(stopped)
        }
    }

    deinit { end() }

    /// Closes this program's end of the pipe after the start of the browser.
    func isPassedOn() { close(writing) }

    /// Ends the reading, and returns the last lines as printable text. Processes that the browser left may still have the pipe open.
    func lastLines() -> [String] {
        end()
        thread.join()
        return tail.lines().suffix(Self.mostLines).map { UntrustedName.display($0, limit: Self.longestLine) }
    }

    private func end() {
        if !isStopped.exchange(true, ordering: .relaxed) { close(stop) }
    }

    /// Passes the bytes from `reading` to `keep` until all writers have closed it, or until `stopped` is closed and what was written before is
    /// read. Processes that the browser left may write without end.
    private static func read(_ reading: Int32, until stopped: Int32, _ keep: (ArraySlice<UInt8>) -> Void) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        var rest = pipeBytes
        while rest > 0 {
            var ends = [
                pollfd(fd: reading, events: Int16(POLLIN), revents: 0), pollfd(fd: stopped, events: 0, revents: 0),
            ]
            if poll(&ends, 2, -1) < 0 {
                if errno == EINTR { continue }
                return
            }
            let isStopped = ends[1].revents != 0
            if ends[0].revents == 0 {
                if isStopped { return }
                continue
            }
            let count = CLibrary.read(reading, &bytes, bytes.count)
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { return }
            keep(bytes[..<count])
            if isStopped { rest -= count }
        }
    }
}

/// How a compositor of wlroots draws. On a machine without a GPU for it, it ends at its start, even if there is a render node.
enum Drawing {
    case onGPU
    case inSoftware

    /// A failure after this time has another reason.
    private static let longestStart = Duration.seconds(30)
    private static let compositors = ["cage", "labwc", "sway"]

    /// Returns the drawing of the first start of a command; nil if it does not run a compositor of wlroots.
    init?(_ words: [String]) {
        guard words.contains(where: { Self.compositors.contains($0.split(separator: "/").last.map(String.init) ?? "") })
        else { return nil }
        self = .onGPU
    }

    /// The variables of the compositor.
    var variables: [String: String] {
        switch self {
        case .onGPU: [:]
        case .inSoftware: ["WLR_RENDERER": "pixman", "WLR_NO_HARDWARE_CURSORS": "1"]
        }
    }

    /// Returns the other drawing after a compositor failed within `time`; nil if the drawing stays.
    func next(afterFailureIn time: Duration) -> Drawing? {
        guard time < Self.longestStart else { return nil }
        return self == .onGPU ? .inSoftware : .onGPU
    }

    /// The sentence about a change to this drawing.
    var notice: String {
        switch self {
        case .onGPU: "the browser's next start draws on the GPU"
        case .inSoftware: "the browser's next start draws without the GPU (WLR_RENDERER=pixman)"
        }
    }
}
