package import BundleThreads
package import BundleValues

/// What to do next in a run.
enum DownloadStep: Sendable {
    case receive(Int, after: PartFile?, isFirstAttempt: Bool)
    case land(DownloadAttempt, rest: [UInt8], bytes: Int)
    case wait(Int, Duration)
}

/// How one step of a run ended.
enum DownloadEvent: Sendable {
    /// All bytes of the response are here, the last of them in `rest`.
    case received(DownloadAttempt, rest: [UInt8], bytes: Int)
    /// The file is in its place, or was refused.
    case landed(DownloadAttempt, Result<DownloadReceipt, any Error>, bytes: Int)
    /// No complete response came; `part` can be gone on with.
    case failed(index: Int, any Error, part: PartFile?, bytes: Int, reached: Int)
    /// It is time for the next attempt.
    case waited(index: Int)
}

/// A run's decisions: takes what happened, and says what comes next.
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

    /// The next request that may be made now.
    mutating func start() -> DownloadStep? {
        schedule.start().map { .receive($0.index, after: $0.part, isFirstAttempt: $0.isFirstAttempt) }
    }

    /// What follows from `event`; throws what ends the run.
    mutating func take(_ event: DownloadEvent) throws -> DownloadStep? {
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
            if jobs[index].isOptional, let error = error as? FetchError, RetryRule.isAbsence(error) {
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
        let mayPass = fetchError.map(RetryRule.mayPass) ?? (refused != nil)
        guard mayPass,
            let failures = schedule.fail(
                index, bytes: bytes, reached: reached, part: part, startsOver: refused != nil)
        else {
            let cause = refused?.cause ?? error
            throw (cause as? FetchError).map { FailedJob(job: index, cause: $0) } ?? cause
        }
        let delay = RetryRule.delay(
            after: fetchError, failures: failures, jitter: random(0.75...1.25), policy: policy)
        return .wait(index, delay)
    }
}

/// What of a run is under way, and what comes next; it only counts.
struct DownloadSchedule {
    /// Files received but not yet written; so many may be in memory at once.
    private static let landings = 32

    private struct Trouble {
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
    private var troubles: [Int: Trouble] = [:]

    init(count: Int, policy: DownloadPolicy) {
        self.count = count
        self.policy = policy
    }

    var isDone: Bool { next == count && ready.isEmpty && receiving + landing + waiting == 0 }

    /// The job to begin now, with what is here of its file; nil when something has to end first. Nothing is begun beside the
    /// first job.
    mutating func start() -> (index: Int, part: PartFile?, isFirstAttempt: Bool)? {
        guard receiving < max(1, policy.requests), landing < Self.landings, let index = takeNext() else { return nil }
        receiving += 1
        return (index, troubles[index]?.part, troubles[index] == nil)
    }

    private mutating func takeNext() -> Int? {
        if !ready.isEmpty { return ready.removeFirst() }
        guard next < count, next == 0 || isFirstDone, waiting < max(1, policy.waiting) else { return nil }
        next += 1
        return next - 1
    }

    /// All bytes are here.
    mutating func received() {
        receiving -= 1
        landing += 1
    }

    /// The file is in its place, or refused.
    mutating func landed() { landing -= 1 }

    /// The request came to another end.
    mutating func ended() { receiving -= 1 }

    /// The job is through; the bytes that its failed attempts took.
    mutating func complete(_ index: Int) -> Int {
        if index == 0 { isFirstDone = true }
        return troubles.removeValue(forKey: index)?.bytes ?? 0
    }

    /// Records an attempt that failed after `bytes` of body, `reached` bytes into the file. Says how many before it, in a row,
    /// brought nothing either; nil when there have been enough. One that brought something is followed by another, and so is the
    /// first that was refused for what was here before it.
    mutating func fail(
        _ index: Int, bytes: Int, reached: Int, part: PartFile?, startsOver: Bool = false
    ) -> Int? {
        retries += 1
        var trouble = troubles[index] ?? Trouble()
        let isFurther = bytes > 0 && reached > trouble.reached
        if isFurther {
            trouble.reached = reached
            trouble.failures = 0
        }
        let isNew = isFurther || startsOver && !trouble.hasStartedOver
        trouble.hasStartedOver = trouble.hasStartedOver || startsOver
        trouble.failures += 1
        trouble.bytes += bytes
        trouble.part = part
        troubles[index] = trouble
        guard isNew || trouble.failures < policy.attempts, retries <= policy.retries else { return nil }
        waiting += 1
        return trouble.failures - 1
    }

    /// A wait is over.
    mutating func wake(_ index: Int) {
        waiting -= 1
        ready.append(index)
    }
}

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
    /// Always `resourcesExhausted`: this machine's fault, not that of what was to be done.
    package var failure: UpdateFailure {
        UpdateFailure(.resourcesExhausted, subject: "thread", "\(self). Then run it again.")
    }
}
