import BundleCore
import BundleThreads

/// The thread that inspects and writes what the network brings, so that receiving goes on meanwhile.
final class DownloadLine: Sendable {
    /// Pieces of larger files that may wait; the network waits for more.
    private static let pieces = 16

    private let worker: SerialWorker

    init() throws(ThreadFailure) { worker = try SerialWorker(capacity: Self.pieces) }

    /// Hands over a piece of a file.
    func append(_ bytes: [UInt8], to landing: AssetLanding) {
        worker.submitWaiting { landing.append(bytes) }
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

/// Collects one answer in memory and hands it over in pieces; what is left at the end is the last one, or the only one.
struct ArrivingAsset: FetchSink, Sendable {
    private static let pieceBytes = 256 * 1024

    private let landing: AssetLanding
    private let line: DownloadLine
    private var start = 0
    private var expected = 0
    /// What was not handed over yet.
    private(set) var rest: [UInt8] = []
    /// Body bytes of this answer.
    private(set) var bytes = 0

    init(_ landing: AssetLanding, on line: DownloadLine) {
        self.landing = landing
        self.line = line
    }

    /// How far into the file this answer came.
    var reached: Int { start + bytes }

    mutating func begin(_ head: FetchHead) throws {
        try landing.begin(head)
        start = head.rangeStart ?? 0
        expected = head.contentLength ?? 0
        reserve()
    }

    mutating func receive(_ chunk: UnsafeRawBufferPointer) throws {
        if rest.count + chunk.count > Self.pieceBytes, !rest.isEmpty {
            try landing.requireSuccess()
            line.append(rest, to: landing)
            rest = []
            reserve()
        }
        rest.append(contentsOf: chunk)
        bytes += chunk.count
    }

    private mutating func reserve() { rest.reserveCapacity(min(max(0, expected - bytes), Self.pieceBytes)) }
}
