package import BundleDisk
package import BundleSigning
package import BundleValues

/// Downloads files in parallel and resumes earlier attempts.
///
/// A file is moved to its place only when it is complete and its inspector accepted it. Files are not synced. One thread
/// inspects and writes all files.
package struct Downloader: Sendable {
    private let places: any DownloadPlaces
    private let fetcher: any Fetcher
    private let policy: DownloadPolicy
    private let environment: Environment

    /// Downloads files to `places`. Waits by the clock of `environment`, with jitter from its random numbers.
    package init(
        to places: any DownloadPlaces, fetcher: any Fetcher, policy: DownloadPolicy,
        environment: Environment = Environment()
    ) {
        self.places = places
        self.fetcher = fetcher
        self.policy = policy
        self.environment = environment
    }

    /// Downloads the files in the order of `jobs`. The first file is downloaded alone, and the others start when it is
    /// accepted.
    ///
    /// The first permanent failure and a cancellation end the run at once. Complete files stay in their places. Throws
    /// `FailedJob`, the inspector's error, `DiskError`, the error of `DownloadPlaces.requireRoom()`, or
    /// `CancellationError`.
    package func run(_ jobs: [DownloadJob]) async throws -> DownloadedFiles {
        let line = try DownloadLine(pieces: policy.pieces)
        defer { line.finish() }
        let steps = DownloadSteps(
            jobs: jobs, fetcher: fetcher, clock: environment.clock, places: places, space: SpaceCheck(places),
            line: line)
        return try await withThrowingTaskGroup(of: DownloadEvent.self) { group in
            var run = DownloadRun(jobs, policy: policy, random: environment.random)
            while !run.isDone {
                while let next = run.start() {
                    group.addTask { await steps.run(next) }
                }
                guard let event = try await group.next() else { break }
                if let step = try run.handle(event) {
                    group.addTask { await steps.run(step) }
                }
            }
            return run.result
        }
    }
}

/// The result of a run.
package struct DownloadedFiles: Sendable {
    /// The downloaded files in no particular order.
    package internal(set) var files: [DownloadedFile] = []
    /// The indexes of the optional jobs whose files the server does not have.
    package internal(set) var missing: [Int] = []
    /// The body bytes from the network, including those of failed attempts.
    package internal(set) var bytesFromNetwork = 0
}

/// A complete and accepted file.
package struct DownloadedFile: Sendable, Equatable {
    /// The index of the job.
    package let job: Int
    /// The size, digest and evidence of the file.
    package let receipt: DownloadReceipt
    /// The body bytes from the network, including those of failed attempts.
    package let bytesFromNetwork: Int
}

/// A file that could not be downloaded in all attempts.
package struct FailedJob: Error {
    /// The index of the job.
    package let job: Int
    /// The error of the last attempt.
    package let cause: FetchError
}

/// The asynchronous steps of a run.
private struct DownloadSteps: Sendable {
    let jobs: [DownloadJob]
    let fetcher: any Fetcher
    let clock: any Clock<Duration>
    let places: any DownloadPlaces
    let space: SpaceCheck
    let line: DownloadLine

    func run(_ step: DownloadStep) async -> DownloadEvent {
        switch step {
        case .receive(let index, let part, let isFirst): await receive(index, after: part, isFirstAttempt: isFirst)
        case .land(let attempt, let rest, let bytes): await land(attempt, rest, bytes: bytes)
        case .wait(let index, let delay): await wait(index, delay)
        }
    }

    private func receive(_ index: Int, after part: PartFile?, isFirstAttempt: Bool) async -> DownloadEvent {
        let attempt: DownloadAttempt
        do {
            let part = try await isFirstAttempt ? earlierPart(of: index) : part
            attempt = try DownloadAttempt(index, jobs[index], after: part, in: places, space)
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

    private func land(_ attempt: DownloadAttempt, _ rest: [UInt8], bytes: Int) async -> DownloadEvent {
        do {
            return .landed(attempt, .success(try await line.run { try attempt.finish(rest) }), bytes: bytes)
        } catch {
            return .landed(attempt, .failure(error), bytes: bytes)
        }
    }

    private func wait(_ index: Int, _ delay: Duration) async -> DownloadEvent {
        do {
            try await clock.sleep(for: delay)
            return .waited(index: index)
        } catch {
            return .failed(index: index, error, part: nil, bytes: 0, reached: 0)
        }
    }
}

/// A file to download.
package struct DownloadJob: Sendable {
    package let url: FetchURL
    /// The largest accepted size in bytes.
    package let maximumBytes: Int
    /// The size in bytes, if it is certain. A part of this size is complete.
    package var size: Int?
    /// Whether a 404 response completes the job without a file.
    package var isOptional = false
    /// Whether a response may have a Content-Encoding. Some servers send one for archives because of their file names.
    package var mayBeEncoded = false
    /// Whether the inspector accepts only one content, by a signed digest. A part is then continued whatever entity tags the server
    /// sends. If the rest does not fit, the download starts again once.
    package var isContentSigned = false
    /// Creates the inspector of one attempt.
    package let makeInspector: @Sendable () throws -> any DownloadInspector

    package init(
        url: FetchURL, maximumBytes: Int, makeInspector: @escaping @Sendable () throws -> any DownloadInspector
    ) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.makeInspector = makeInspector
    }

    /// Returns a job for a copy of the same file at `url`.
    package func moved(to url: FetchURL) -> DownloadJob {
        var job = DownloadJob(url: url, maximumBytes: maximumBytes, makeInspector: makeInspector)
        (job.size, job.isOptional) = (size, isOptional)
        (job.mayBeEncoded, job.isContentSigned) = (mayBeEncoded, isContentSigned)
        return job
    }
}

/// Inspects the bytes of one attempt, on one thread at a time. A file is moved to its place only if its inspector accepts
/// it.
///
/// Its errors name the file and end the run. A resumed file gets one more attempt from byte 0 with a new inspector,
/// because its earlier part can be at fault.
package protocol DownloadInspector: AnyObject {
    /// Receives the head of the response, of the rest (206) for a resumed file. It is not called for a part that was
    /// complete.
    func begin(_ head: FetchHead) throws
    /// Receives the next bytes of the file in order from byte 0, also of a resumed file.
    func update(_ bytes: UnsafeRawBufferPointer) throws
    /// Completes the inspection. Throws if the file is rejected.
    func finish() throws -> DownloadReceipt
}

/// The findings of an inspector about an accepted file.
package struct DownloadReceipt: Sendable, Equatable {
    /// The size in bytes.
    package let size: Int
    package let sha256: SHA256Digest
    /// The evidence of the inspector, which only the inspector interprets.
    package let evidence: String

    package init(size: Int, sha256: SHA256Digest, evidence: String) {
        self.size = size
        self.sha256 = sha256
        self.evidence = evidence
    }
}

/// Stores the files of a run and records unfinished ones for later runs. Jobs are identified by index.
///
/// The writing thread calls everything except `hasEarlierPart` and `received`.
package protocol DownloadPlaces: AnyObject, Sendable {
    /// Whether `earlierPart` can find a part. Any thread can call it.
    func hasEarlierPart(of job: Int) throws -> Bool
    /// Returns the part that an earlier run left, or nil.
    func earlierPart(of job: Int) throws -> PartFile?
    /// Creates the part of a file, and records it if it can be resumed.
    func beginPart(of job: Int, validator: String?) throws -> PartFile
    /// Moves a complete and accepted file to its place.
    func place(_ part: PartFile, of job: Int, _ receipt: DownloadReceipt) throws
    /// Removes an invalid part.
    func remove(_ part: PartFile) throws
    /// Throws if the free space is below the device's reserve. It is called before each file and every few megabytes.
    func requireRoom() throws
    /// Reports `count` new body bytes of a file that now has `reached` bytes; 0 for its head. The network thread calls
    /// it.
    func received(_ count: Int, reached: Int)
}

/// A partial file on disk.
package struct PartFile: Sendable {
    /// The name in its folder.
    package let name: String
    /// The open file, at its end.
    package let file: File
    /// The validator of the resource; nil if the server sent none. The part can then be continued only if its content is signed.
    package let validator: String?

    package init(name: String, file: File, validator: String?) {
        self.name = name
        self.file = file
        self.validator = validator
    }

    /// Opens the part that an earlier run left at `name`.
    package init(resuming name: String, in folder: Directory, validator: String?) throws(DiskError) {
        let file = try folder.file(appending: name)
        try file.truncate(to: try file.size())
        self.init(name: name, file: file, validator: validator)
    }

    /// Returns a request for the bytes behind the part, or nil to start again.
    func resume(isContentSigned: Bool) throws(DiskError) -> FetchRequest.Resume? {
        let size = try file.size()
        if isContentSigned { return FetchRequest.Resume(ofKnownContent: size) }
        return validator.flatMap { FetchRequest.Resume(offset: size, validator: $0) }
    }
}
