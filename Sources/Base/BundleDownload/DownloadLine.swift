package import BundleValues
package import BundleThreads

/// The thread that inspects and writes what the network brings, so that receiving goes on meanwhile.
final class DownloadLine: Sendable {
    private let worker: SerialWorker

    /// So many pieces of larger files may wait; the network waits for more.
    init(pieces: Int) throws(ThreadFailure) { worker = try SerialWorker(capacity: pieces) }

    /// Hands over a piece of a file.
    func append(_ bytes: [UInt8], to attempt: DownloadAttempt) {
        worker.submitWaiting { attempt.append(bytes) }
    }

    /// Runs work after all that was handed over before.
    func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            worker.submit { continuation.resume(with: Result { try work() }) }
        }
    }

    /// Ends the thread; the last call.
    func finish() { worker.finish() }
}

/// Collects one response in memory and hands it over in pieces; what is left at the end is the last one, or the only one.
struct ArrivingFile: FetchSink, Sendable {
    private static let pieceBytes = 256 * 1024

    private let attempt: DownloadAttempt
    private let line: DownloadLine
    private var start = 0
    private var expected = 0
    /// What was not handed over yet.
    private(set) var rest: [UInt8] = []
    /// Body bytes of this response.
    private(set) var bytes = 0

    init(_ attempt: DownloadAttempt, on line: DownloadLine) {
        self.attempt = attempt
        self.line = line
    }

    /// How far into the file this response came.
    var reached: Int { start + bytes }

    mutating func begin(_ head: FetchHead) throws {
        try attempt.begin(head)
        start = head.rangeStart ?? 0
        expected = head.contentLength ?? 0
        reserve()
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws {
        if rest.count + chunk.count > Self.pieceBytes, !rest.isEmpty {
            try attempt.requireSuccess()
            line.append(rest, to: attempt)
            rest = []
            reserve()
        }
        rest.append(contentsOf: chunk)
        bytes += chunk.count
        attempt.received(chunk.count, reached: reached)
    }

    private mutating func reserve() { rest.reserveCapacity(min(max(0, expected - bytes), Self.pieceBytes)) }
}

extension ThreadFailure: ClassifiedFailure {
    /// Always `internal`: this machine's fault, not that of what was to be done.
    package var failure: UpdateFailure {
        UpdateFailure(.internal, subject: "thread", "\(self). Then run it again.")
    }
}
