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
