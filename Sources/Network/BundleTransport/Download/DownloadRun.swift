package import BundleValues

/// The next step of a run.
enum DownloadStep: Sendable {
    case receive(Int, after: PartFile?, isFirstAttempt: Bool)
    case land(DownloadAttempt, rest: [UInt8], bytes: Int)
    case wait(Int, Duration)
}

/// The result of a step.
enum DownloadEvent: Sendable {
    /// The response is complete. `rest` has its last bytes.
    case received(DownloadAttempt, rest: [UInt8], bytes: Int)
    /// The file was moved to its place or rejected.
    case landed(DownloadAttempt, Result<DownloadReceipt, any Error>, bytes: Int)
    /// The response is incomplete. `part` can be resumed.
    case failed(index: Int, any Error, part: PartFile?, bytes: Int, reached: Int)
    /// The wait before the next attempt is over.
    case waited(index: Int)
}

/// The decisions of a run: it maps events to steps.
struct DownloadRun {
    private let jobs: [DownloadJob]
    private let policy: DownloadPolicy
    private let random: (ClosedRange<Double>) -> Double
    private var schedule: DownloadSchedule
    private(set) var result = DownloadedFiles()

    init(_ jobs: [DownloadJob], policy: DownloadPolicy, random: @escaping (ClosedRange<Double>) -> Double) {
        self.jobs = jobs
        self.policy = policy
        self.random = random
        schedule = DownloadSchedule(count: jobs.count, policy: policy)
    }

    var isDone: Bool { schedule.isDone }

    /// Returns the next request, if one may start.
    mutating func start() -> DownloadStep? {
        schedule.start().map { .receive($0.index, after: $0.part, isFirstAttempt: $0.isFirstAttempt) }
    }

    /// Returns the step after an event. Throws to end the run.
    mutating func handle(_ event: DownloadEvent) throws -> DownloadStep? {
        switch event {
        case .received(let attempt, let rest, let bytes):
            schedule.received()
            return .land(attempt, rest: rest, bytes: bytes)
        case .landed(let attempt, .success(let receipt), let bytes):
            schedule.landed()
            complete(attempt.index, receipt, bytes: bytes)
            return nil
        case .landed(let attempt, .failure(let error), let bytes):
            schedule.landed()
            return try retry(attempt.index, after: error, part: nil, bytes: bytes, reached: 0)
        case .failed(let index, let error, let part, let bytes, let reached):
            schedule.ended()
            if jobs[index].isOptional, let error = error as? FetchError, AttemptRule.isAbsence(error) {
                complete(index, nil, bytes: bytes)
                return nil
            }
            return try retry(index, after: error, part: part, bytes: bytes, reached: reached)
        case .waited(let index):
            schedule.wake(index)
            return nil
        }
    }

    private mutating func complete(_ index: Int, _ receipt: DownloadReceipt?, bytes: Int) {
        let bytes = bytes + schedule.complete(index)
        result.bytesFromNetwork += bytes
        if let receipt {
            result.files.append(DownloadedFile(job: index, receipt: receipt, bytesFromNetwork: bytes))
        } else {
            result.missing.append(index)
        }
    }

    private mutating func retry(
        _ index: Int, after error: any Error, part: PartFile?, bytes: Int, reached: Int
    ) throws -> DownloadStep {
        let (fetchError, refused) = (error as? FetchError, error as? ResumedFileRefused)
        let mayPass = fetchError.map(AttemptRule.mayPass) ?? (refused != nil)
        guard mayPass,
            let failures = schedule.fail(
                index, bytes: bytes, reached: reached, part: part, startsOver: refused != nil)
        else {
            let cause = refused?.cause ?? error
            throw (cause as? FetchError).map { FailedJob(job: index, cause: $0) } ?? cause
        }
        let delay = AttemptRule.delay(
            after: fetchError, failures: failures, jitter: random(0.75...1.25), policy: policy)
        return .wait(index, delay)
    }
}

/// Counts the jobs in progress and chooses the next one.
struct DownloadSchedule {
    /// The largest number of received files in memory that are not written yet.
    private static let landings = 32

    private struct Failures {
        var failures = 0
        var reached = 0
        var bytes = 0
        var part: PartFile?
        var hasStartedOver = false
    }

    private let count: Int
    private let policy: DownloadPolicy
    private var next = 0
    private var isFirstDone = false
    private var ready: [Int] = []
    private var receiving = 0
    private var landing = 0
    private var waiting = 0
    private var retries = 0
    private var failures: [Int: Failures] = [:]

    init(count: Int, policy: DownloadPolicy) {
        self.count = count
        self.policy = policy
    }

    var isDone: Bool { next == count && ready.isEmpty && receiving + landing + waiting == 0 }

    /// Returns the next job with its part, or nil if another job has to end first. The first job runs alone.
    mutating func start() -> (index: Int, part: PartFile?, isFirstAttempt: Bool)? {
        guard receiving < max(1, policy.requests), landing < Self.landings, let index = nextIndex() else { return nil }
        receiving += 1
        return (index, failures[index]?.part, failures[index] == nil)
    }

    private mutating func nextIndex() -> Int? {
        if !ready.isEmpty { return ready.removeFirst() }
        guard next < count, next == 0 || isFirstDone, waiting < max(1, policy.waiting) else { return nil }
        next += 1
        return next - 1
    }

    /// The response of a job is complete.
    mutating func received() {
        receiving -= 1
        landing += 1
    }

    /// The file of a job was moved to its place or rejected.
    mutating func landed() { landing -= 1 }

    /// The request of a job ended without a complete response.
    mutating func ended() { receiving -= 1 }

    /// Completes a job. Returns the bytes of its failed attempts.
    mutating func complete(_ index: Int) -> Int {
        if index == 0 { isFirstDone = true }
        return failures.removeValue(forKey: index)?.bytes ?? 0
    }

    /// Records a failed attempt with `bytes` of body, which ended at offset `reached` of the file. Returns the number of
    /// earlier failures in a row without progress, or nil if there are too many. An attempt with progress is always
    /// followed by another, and so is the first rejection of a resumed file.
    mutating func fail(
        _ index: Int, bytes: Int, reached: Int, part: PartFile?, startsOver: Bool = false
    ) -> Int? {
        retries += 1
        var state = failures[index] ?? Failures()
        let isFurther = bytes > 0 && reached > state.reached
        if isFurther {
            state.reached = reached
            state.failures = 0
        }
        let isNew = isFurther || startsOver && !state.hasStartedOver
        state.hasStartedOver = state.hasStartedOver || startsOver
        state.failures += 1
        state.bytes += bytes
        state.part = part
        failures[index] = state
        guard isNew || state.failures < policy.attempts, retries <= policy.retries else { return nil }
        waiting += 1
        return state.failures - 1
    }

    /// The wait of a job is over.
    mutating func wake(_ index: Int) {
        waiting -= 1
        ready.append(index)
    }
}

/// A thread that inspects and writes files, so that the network thread can continue.
final class DownloadLine: Sendable {
    private let worker: SerialWorker

    /// `pieces` limits the queued pieces of larger files. The network thread waits while the queue is full.
    init(pieces: Int) throws(ThreadFailure) { worker = try SerialWorker(capacity: pieces) }

    /// Queues a piece of a file.
    func append(_ bytes: [UInt8], to attempt: DownloadAttempt) {
        worker.submitWaiting { attempt.append(bytes) }
    }

    /// Runs work after all queued work.
    func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            worker.submit { continuation.resume(with: Result { try work() }) }
        }
    }

    /// Ends the thread. No work may be queued afterwards.
    func finish() { worker.finish() }
}

/// Collects a response in memory and passes it on in pieces. The last piece, or the only one, is `rest`.
struct ArrivingFile: FetchSink, Sendable {
    private static let pieceBytes = 256 * 1024

    private let attempt: DownloadAttempt
    private let line: DownloadLine
    private var start = 0
    private var expected = 0
    /// The bytes that were not passed on yet.
    private(set) var rest: [UInt8] = []
    /// The body bytes of this response.
    private(set) var bytes = 0

    init(_ attempt: DownloadAttempt, on line: DownloadLine) {
        self.attempt = attempt
        self.line = line
    }

    /// The offset in the file that this response has reached.
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
    /// The code is always `resourcesExhausted`: a limit of this machine caused the failure.
    package var failure: UpdateFailure {
        UpdateFailure(.resourcesExhausted, subject: "thread", "\(self). Then run it again.")
    }
}
