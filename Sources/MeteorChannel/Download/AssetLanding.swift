import BundleCore
import BundleDisk
import Synchronization

/// One attempt at one file on its way to its place. A small file is written in one go, a larger one grows as a part.
///
/// Sendable, unchecked: the network's thread has it until it hands over the first bytes, the writing thread from then on; the
/// failure, which both need, is behind a mutex.
final class AssetLanding: @unchecked Sendable {
    let index: Int
    let job: AssetJob
    private let places: AssetPlaces
    private let inspector: any AssetInspector
    private var part: AssetPart?
    private var head: FetchHead?
    /// Whether an earlier attempt's part has been taken up or dropped.
    private var isSettled = false
    private var isResumed = false
    private let failure = Mutex<(any Error)?>(nil)

    init(_ index: Int, _ job: AssetJob, in places: AssetPlaces, after part: AssetPart?) throws {
        self.index = index
        self.job = job
        self.places = places
        self.part = part
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
        if let coding = head.contentEncoding {
            throw FetchError.invalidAnswer(
                head.effectiveURL,
                reason: "it is encoded (\(UntrustedName.display(coding))) although no encoding was asked for")
        }
        try inspector.begin(head)
    }

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
    func finish(_ rest: [UInt8]) throws -> AssetReceipt {
        do {
            try requireSuccess()
            try settle()
            guard part != nil else { return try finishWhole(rest) }
            try grow(rest)
            let receipt = try inspect { try inspector.finish() }
            if let part { try places.place(part, of: job, receipt) }
            return receipt
        } catch {
            drop()
            throw error
        }
    }

    private func finishWhole(_ bytes: [UInt8]) throws -> AssetReceipt {
        places.received(bytes.count)
        try bytes.withUnsafeBytes { try inspector.update($0) }
        let receipt = try inspector.finish()
        try places.place(bytes, of: job, receipt)
        return receipt
    }

    /// Ends a failed attempt, and keeps what the next one can go on with.
    func abandon(_ rest: [UInt8], because error: any Error) throws -> AssetPart? {
        do {
            guard isWorthKeeping(after: error) else {
                drop()
                return nil
            }
            // Without an answer an earlier attempt's part is as it was.
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
        places.received(bytes.count)
        let growing = try part ?? places.beginPart(of: job, validator: head?.validator)
        part = growing
        try bytes.withUnsafeBytes { buffer in
            try inspect { try inspector.update(buffer) }
            try places.append(buffer, to: growing)
        }
    }

    /// Shows the inspector what was here before, or drops it where the answer starts over.
    private func settle() throws {
        if isSettled { return }
        isSettled = true
        guard let part else { return }
        guard head?.rangeStart != nil else { return drop() }
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

/// The inspector refuses a file that came in more than one attempt.
struct ResumedFileRefused: Error {
    let cause: any Error
}
