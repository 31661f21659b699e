package import BundleDisk
package import BundleSigning
package import BundleValues

/// Brings files, some at once, and goes on where an earlier attempt stopped.
///
/// A file gets its place only when it is complete and its inspector has accepted it; nothing is forced to the disk. What the network
/// brings is inspected and written by one thread.
package struct Downloader: Sendable {
    private let places: any DownloadPlaces
    private let fetcher: any Fetcher
    private let policy: DownloadPolicy
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double

    /// Brings files to `places`; waits between attempts by `clock`, scattered by `random`.
    package init(
        to places: any DownloadPlaces, fetcher: any Fetcher, policy: DownloadPolicy,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }
    ) {
        self.places = places
        self.fetcher = fetcher
        self.policy = policy
        self.clock = clock
        self.random = random
    }

    /// Brings the files in the order of `jobs`, the first one alone: the others are begun when it is accepted.
    ///
    /// The first final failure, and cancelling the task, end everything at once; what is complete then stays in its place.
    /// Throws a `FailedJob`, the inspector's own error, a `DiskError`, what the places throw for want of room, or
    /// `CancellationError`.
    package func run(_ jobs: [DownloadJob]) async throws -> DownloadedFiles {
        let line = try DownloadLine(pieces: policy.pieces)
        defer { line.finish() }
        let steps = DownloadSteps(
            jobs: jobs, fetcher: fetcher, clock: clock, places: places, room: RoomCheck(places), line: line)
        return try await withThrowingTaskGroup(of: DownloadEvent.self) { group in
            var run = DownloadRun(jobs, policy: policy, random: random)
            while !run.isDone {
                while let next = run.start() {
                    group.addTask { await steps.run(next) }
                }
                guard let event = try await group.next() else { break }
                if let step = try run.take(event) {
                    group.addTask { await steps.run(step) }
                }
            }
            return run.result
        }
    }
}

/// What a run brought.
package struct DownloadedFiles: Sendable {
    /// The files that are in their places now, in no order.
    package internal(set) var files: [DownloadedFile] = []
    /// The jobs, by index, of optional files that the server does not have.
    package internal(set) var missing: [Int] = []
    /// Body bytes taken from the network, those of failed attempts included.
    package internal(set) var bytesFromNetwork = 0
}

/// A file that is complete, accepted and in its place.
package struct DownloadedFile: Sendable, Equatable {
    /// The index of its job.
    package let job: Int
    /// Size, digest and what speaks for it.
    package let receipt: DownloadReceipt
    /// Body bytes taken from the network, those of failed attempts included.
    package let bytesFromNetwork: Int
}

/// A file that did not arrive, after all attempts.
package struct FailedJob: Error {
    /// Its index.
    package let job: Int
    /// What the last attempt came to.
    package let cause: FetchError
}

/// The steps of a run that take time, each a task of its own.
private struct DownloadSteps: Sendable {
    let jobs: [DownloadJob]
    let fetcher: any Fetcher
    let clock: any Clock<Duration>
    let places: any DownloadPlaces
    let room: RoomCheck
    let line: DownloadLine

    func run(_ step: DownloadStep) async -> DownloadEvent {
        switch step {
        case .receive(let index, let part, let isFirst): await receive(index, after: part, isFirstAttempt: isFirst)
        case .land(let attempt, let rest, let bytes): await land(attempt, rest, bytes: bytes)
        case .wait(let index, let delay): await wait(index, delay)
        }
    }

    /// Asks for one file and collects the response.
    private func receive(_ index: Int, after part: PartFile?, isFirstAttempt: Bool) async -> DownloadEvent {
        let attempt: DownloadAttempt
        do {
            let part = try await isFirstAttempt ? earlierPart(of: index) : part
            attempt = try DownloadAttempt(index, jobs[index], after: part, in: places, room)
        } catch {
            return .failed(index: index, error, part: nil, bytes: 0, reached: 0)
        }
        if attempt.isComplete { return .received(attempt, rest: [], bytes: 0) }
        var sink = ArrivingFile(attempt, on: line)
        do {
            _ = try await fetcher.fetch(try attempt.request(), into: &sink)
            return .received(attempt, rest: sink.rest, bytes: sink.bytes)
        } catch {
            return await abandon(attempt, sink, because: error)
        }
    }

    private func earlierPart(of index: Int) async throws -> PartFile? {
        guard try places.hasEarlierPart(of: index) else { return nil }
        return try await line.run { try places.earlierPart(of: index) }
    }

    private func abandon(
        _ attempt: DownloadAttempt, _ sink: ArrivingFile, because error: any Error
    ) async -> DownloadEvent {
        let (index, bytes, reached) = (attempt.index, sink.bytes, sink.reached)
        do {
            let part = try await line.run { try attempt.abandon(sink.rest, because: error) }
            return .failed(index: index, error, part: part, bytes: bytes, reached: reached)
        } catch {
            return .failed(index: index, error, part: nil, bytes: bytes, reached: reached)
        }
    }

    /// Inspects and places a file.
    private func land(_ attempt: DownloadAttempt, _ rest: [UInt8], bytes: Int) async -> DownloadEvent {
        do {
            return .landed(attempt, .success(try await line.run { try attempt.finish(rest) }), bytes: bytes)
        } catch {
            return .landed(attempt, .failure(error), bytes: bytes)
        }
    }

    /// Waits for the next attempt.
    private func wait(_ index: Int, _ delay: Duration) async -> DownloadEvent {
        do {
            try await clock.sleep(for: delay)
            return .waited(index: index)
        } catch {
            return .failed(index: index, error, part: nil, bytes: 0, reached: 0)
        }
    }
}

/// One file to bring.
package struct DownloadJob: Sendable {
    /// Where it comes from.
    package let url: FetchURL
    /// The most bytes it may have.
    package let maximumBytes: Int
    /// Its bytes, where they are certain: a part of so many is asked for no more.
    package var size: Int?
    /// Whether the response 404 counts as done, with nothing written.
    package var isOptional = false
    /// Whether a response may be labelled as encoded: what is an archive, by servers that know its name only.
    package var mayBeEncoded = false
    /// Makes the judge of one attempt.
    package let makeInspector: @Sendable () throws -> any DownloadInspector

    /// Describes a file to bring.
    package init(
        url: FetchURL, maximumBytes: Int, makeInspector: @escaping @Sendable () throws -> any DownloadInspector
    ) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.makeInspector = makeInspector
    }
}

/// Judges one attempt at one file, which is placed only with its consent. Used by one thread at a time.
///
/// What it throws is final for the file, and so for the run; it names the file. Only of a file that was resumed, where the part that
/// was here before may be what is wrong, one more attempt is made, from the first byte and with another inspector.
package protocol DownloadInspector: AnyObject {
    /// The response's head, before any byte; none for a part that was complete. Of a resumed file it is that of the rest (206).
    func begin(_ head: FetchHead) throws
    /// The next bytes of the file in order, from its first one: also of a resumed file.
    func update(_ bytes: UnsafeRawBufferPointer) throws
    /// All bytes were seen.
    func finish() throws -> DownloadReceipt
}

/// What an inspector found out about a file that it accepts.
package struct DownloadReceipt: Sendable, Equatable {
    /// Bytes in the file.
    package let size: Int
    /// The digest of its bytes.
    package let sha256: SHA256Digest
    /// What speaks for it, in the inspector's words.
    package let evidence: String

    /// States the findings.
    package init(size: Int, sha256: SHA256Digest, evidence: String) {
        self.size = size
        self.sha256 = sha256
        self.evidence = evidence
    }
}

/// The disk's side of a run: where files grow, where they go, and what is recorded of them for a later run. Jobs are known by index.
///
/// The run's writing thread calls everything but `hasEarlierPart` and `received`.
package protocol DownloadPlaces: AnyObject, Sendable {
    /// Whether `earlierPart` may find something. Called by any thread.
    func hasEarlierPart(of job: Int) throws -> Bool
    /// The beginning of the file that an earlier run has left; nil where there is none.
    func earlierPart(of job: Int) throws -> PartFile?
    /// Begins the file, and records it where it can be gone on with.
    func beginPart(of job: Int, validator: String?) throws -> PartFile
    /// Gives a file that is complete and accepted its place.
    func place(_ part: PartFile, of job: Int, _ receipt: DownloadReceipt) throws
    /// Removes a part that is no good.
    func remove(_ part: PartFile) throws
    /// Throws where less room is left than the device needs. Called before each file and every few megabytes.
    func requireRoom() throws
    /// `count` more body bytes are here of a file, of which `reached` bytes are here by now; 0 with the head. Called by the network's thread.
    func received(_ count: Int, reached: Int)
}

/// The beginning of a file, on the disk.
package struct PartFile: Sendable {
    /// Its name in the folder that it lies in.
    package let name: String
    /// Open, at its end.
    package let file: File
    /// Nil where the server gave none: the part cannot be gone on with later.
    package let validator: String?

    /// States where a part is.
    package init(name: String, file: File, validator: String?) {
        self.name = name
        self.file = file
        self.validator = validator
    }

    /// Takes up what an earlier run has left at `name`.
    package init(resuming name: String, in folder: Directory, validator: String?) throws(DiskError) {
        let file = try folder.file(appending: name)
        try file.truncate(to: try file.size())
        self.init(name: name, file: file, validator: validator)
    }

    /// How to go on behind it.
    func resume() throws(DiskError) -> FetchRequest.Resume? {
        let size = try file.size()
        return validator.flatMap { FetchRequest.Resume(offset: size, validator: $0) }
    }
}
