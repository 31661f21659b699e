import BundleValues
import BundleDisk
import Synchronization

/// An attempt at one file. A small file is written at once, a larger one in parts.
///
/// Unchecked Sendable: the network thread uses it until it passes on the first bytes, then the writing thread does. A
/// mutex guards the failure, which both use.
final class DownloadAttempt: @unchecked Sendable {
    let index: Int
    private let job: DownloadJob
    private let places: any DownloadPlaces
    private let space: SpaceCheck
    private let inspector: any DownloadInspector
    private var part: PartFile?
    private var head: FetchHead?
    /// Whether all bytes are present, so that no request is needed.
    let isComplete: Bool
    /// Whether the part of an earlier attempt was resumed or removed.
    private var isPartResolved = false
    private var isResumed = false
    private let failure = Mutex<(any Error)?>(nil)

    init(_ index: Int, _ job: DownloadJob, after part: PartFile?, in places: any DownloadPlaces, _ space: SpaceCheck)
        throws
    {
        self.index = index
        self.job = job
        self.places = places
        self.space = space
        self.part = part
        isComplete = try part.map { try $0.file.size() == job.size } ?? false
        inspector = try job.makeInspector()
    }

    /// Returns the request for the missing bytes.
    func request() throws -> FetchRequest {
        FetchRequest(
            url: job.url, maximumBytes: job.maximumBytes,
            resume: try part?.resume(isContentSigned: job.isContentSigned))
    }

    // MARK: The network's thread

    func begin(_ head: FetchHead) throws {
        self.head = head
        // The request did not ask for an encoding, so nothing decodes it.
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

    /// Appends bytes to the part. A failure ends the transfer at its next bytes.
    func append(_ bytes: [UInt8]) {
        if failure.withLock({ $0 != nil }) { return }
        do {
            try grow(bytes)
        } catch {
            failure.withLock { $0 = error }
        }
    }

    /// Writes the last bytes, finishes the inspection and moves the file to its place.
    func finish(_ rest: [UInt8]) throws -> DownloadReceipt {
        do {
            try requireSuccess()
            try resumePart()
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

    /// Ends a failed attempt and returns the part that the next attempt can resume.
    func abandon(_ rest: [UInt8], because error: any Error) throws -> PartFile? {
        do {
            guard isWorthKeeping(after: error) else {
                let wasResumed = part != nil && !isPartResolved || isResumed
                drop()
                guard wasResumed, let error = error as? FetchError, AttemptRule.mayPass(error) else { return nil }
                throw ResumedFileRefused(cause: error)
            }
            // Without a response, the part of the earlier attempt is unchanged.
            guard let head else { return part }
            // A small file is not worth the time when the user cancelled.
            if error is CancellationError, part == nil { return nil }
            if rest.isEmpty, !isPartResolved, head.rangeStart != nil { return part }
            try rest.isEmpty ? resumePart() : grow(rest)
            if part?.validator == nil, !job.isContentSigned { drop() }
            return part
        } catch {
            drop()
            throw error
        }
    }

    private func isWorthKeeping(after error: any Error) -> Bool {
        if failure.withLock({ $0 != nil }) { return false }
        if let error = error as? FetchError { return !AttemptRule.invalidatesPart(error) }
        return error is CancellationError
    }

    private func grow(_ bytes: [UInt8]) throws {
        try resumePart()
        let part = try begun(validator: head?.validator)
        try bytes.withUnsafeBytes { bytes in try inspect { try inspector.update(bytes) } }
        try write(bytes, to: part)
    }

    private func begun(validator: String?) throws -> PartFile {
        if let part { return part }
        try space.require()
        let begun = try places.beginPart(of: index, validator: validator)
        part = begun
        return begun
    }

    private func write(_ bytes: [UInt8], to part: PartFile) throws {
        try space.require(before: bytes.count)
        try bytes.withUnsafeBytes { try part.file.write($0) }
    }

    /// Inspects the part of an earlier attempt, or removes it if the response starts at byte 0.
    private func resumePart() throws {
        if isPartResolved { return }
        isPartResolved = true
        guard let part else { return }
        guard isComplete || head?.rangeStart != nil else { return drop() }
        isResumed = true
        try inspect { _ = try part.file.forEachBlock { try inspector.update($0) } }
    }

    /// Converts the inspector's error if the file was resumed, because its earlier part can be at fault.
    private func inspect<Answer>(_ step: () throws -> Answer) throws -> Answer {
        do {
            return try step()
        } catch {
            if isResumed, !(error is DiskError) { throw ResumedFileRefused(cause: error) }
            throw error
        }
    }

    /// Removes the part, so that the next attempt starts at byte 0. A part that cannot be removed is not used again.
    private func drop() {
        if let part { try? places.remove(part) }
        part = nil
    }
}

/// A resumed file was rejected by its inspector, or by a server that does not have the rest.
struct ResumedFileRefused: Error {
    let cause: any Error
}

/// Checks the free space before each file and every few megabytes.
///
/// Unchecked Sendable: only the writing thread uses it.
final class SpaceCheck: @unchecked Sendable {
    /// The bytes between two checks.
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
