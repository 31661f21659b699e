import BundleValues
import BundleDisk
import Synchronization

/// One attempt at one file on its way to its place. A small file is written in one go, a larger one grows as a part.
///
/// Sendable, unchecked: the network's thread has it until it hands over the first bytes, the writing thread from then on; the
/// failure, which both need, is behind a mutex.
final class DownloadAttempt: @unchecked Sendable {
    let index: Int
    private let job: DownloadJob
    private let places: any DownloadPlaces
    private let room: RoomCheck
    private let inspector: any DownloadInspector
    private var part: PartFile?
    private var head: FetchHead?
    /// Nothing has to be asked for.
    let isComplete: Bool
    /// Whether an earlier attempt's part has been taken up or dropped.
    private var isSettled = false
    private var isResumed = false
    private let failure = Mutex<(any Error)?>(nil)

    init(_ index: Int, _ job: DownloadJob, after part: PartFile?, in places: any DownloadPlaces, _ room: RoomCheck)
        throws
    {
        self.index = index
        self.job = job
        self.places = places
        self.room = room
        self.part = part
        isComplete = try part.map { try $0.file.size() == job.size } ?? false
        inspector = try job.makeInspector()
    }

    /// What to ask the server for.
    func request() throws -> FetchRequest {
        FetchRequest(url: job.url, maximumBytes: job.maximumBytes, resume: try part?.resume())
    }

    // MARK: The network's thread

    func begin(_ head: FetchHead) throws {
        self.head = head
        // It was not asked for, so nothing here takes it off again.
        if let coding = head.contentEncoding, !job.mayBeEncoded {
            throw FetchError.invalidResponse(
                head.effectiveURL,
                reason: "it is encoded (\(UntrustedName.display(coding))) although no encoding was asked for")
        }
        try inspector.begin(head)
        places.received(0, reached: head.rangeStart ?? 0)
    }

    func received(_ count: Int, reached: Int) { places.received(count, reached: reached) }

    func requireSuccess() throws {
        if let failure = failure.withLock({ $0 }) { throw failure }
    }

    // MARK: The writing thread

    /// Adds bytes to the part; a failure ends the transfer with its next bytes.
    func append(_ bytes: [UInt8]) {
        if failure.withLock({ $0 != nil }) { return }
        do {
            try grow(bytes)
        } catch {
            failure.withLock { $0 = error }
        }
    }

    /// Takes the last bytes, asks the inspector, and gives the file its place.
    func finish(_ rest: [UInt8]) throws -> DownloadReceipt {
        do {
            try requireSuccess()
            try settle()
            let isWhole = part == nil
            if isWhole { try rest.withUnsafeBytes { try inspector.update($0) } } else { try grow(rest) }
            let receipt = try inspect { try inspector.finish() }
            if isWhole { try write(rest, to: try begun(validator: nil)) }
            if let part { try places.place(part, of: index, receipt) }
            return receipt
        } catch {
            drop()
            throw error
        }
    }

    /// Ends a failed attempt, and keeps what the next one can go on with.
    func abandon(_ rest: [UInt8], because error: any Error) throws -> PartFile? {
        do {
            guard isWorthKeeping(after: error) else {
                let wasResumed = part != nil && !isSettled || isResumed
                drop()
                guard wasResumed, let error = error as? FetchError, RetryRule.mayPass(error) else { return nil }
                throw ResumedFileRefused(cause: error)
            }
            // Without a response an earlier attempt's part is as it was.
            guard let head else { return part }
            // The few bytes of a small file are not worth the time when somebody waits for the end.
            if error is CancellationError, part == nil { return nil }
            if rest.isEmpty, !isSettled, head.rangeStart != nil { return part }
            try rest.isEmpty ? settle() : grow(rest)
            if part?.validator == nil { drop() }
            return part
        } catch {
            drop()
            throw error
        }
    }

    private func isWorthKeeping(after error: any Error) -> Bool {
        if failure.withLock({ $0 != nil }) { return false }
        if let error = error as? FetchError { return !RetryRule.condemnsPart(error) }
        return error is CancellationError
    }

    private func grow(_ bytes: [UInt8]) throws {
        try settle()
        let part = try begun(validator: head?.validator)
        try bytes.withUnsafeBytes { bytes in try inspect { try inspector.update(bytes) } }
        try write(bytes, to: part)
    }

    private func begun(validator: String?) throws -> PartFile {
        if let part { return part }
        try room.require()
        let begun = try places.beginPart(of: index, validator: validator)
        part = begun
        return begun
    }

    private func write(_ bytes: [UInt8], to part: PartFile) throws {
        try room.require(before: bytes.count)
        try bytes.withUnsafeBytes { try part.file.write($0) }
    }

    /// Shows the inspector what was here before, or drops it where the response starts over.
    private func settle() throws {
        if isSettled { return }
        isSettled = true
        guard let part else { return }
        guard isComplete || head?.rangeStart != nil else { return drop() }
        isResumed = true
        try inspect { _ = try part.file.forEachBlock { try inspector.update($0) } }
    }

    /// A file that is refused although it was fetched from its first byte is no good; a resumed one may be.
    private func inspect<Answer>(_ step: () throws -> Answer) throws -> Answer {
        do {
            return try step()
        } catch {
            if isResumed, !(error is DiskError) { throw ResumedFileRefused(cause: error) }
            throw error
        }
    }

    /// The next attempt starts at the first byte. What cannot be removed is never looked at again.
    private func drop() {
        if let part { try? places.remove(part) }
        part = nil
    }
}

/// A file that came in more than one attempt is refused, by its inspector or by the server that has no such rest.
struct ResumedFileRefused: Error {
    let cause: any Error
}

/// Asks for room before each file and every few megabytes.
///
/// Sendable, unchecked: used by the writing thread only.
final class RoomCheck: @unchecked Sendable {
    /// Bytes between two looks at the room left.
    private static let stride = 4 << 20

    private let places: any DownloadPlaces
    private var unchecked = 0

    init(_ places: any DownloadPlaces) { self.places = places }

    func require() throws { try places.requireRoom() }

    func require(before count: Int) throws {
        unchecked += count
        if unchecked < Self.stride { return }
        try require()
        unchecked = 0
    }
}
