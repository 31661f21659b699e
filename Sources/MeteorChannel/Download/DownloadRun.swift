import BundleCore

/// What to do next in a run.
enum DownloadStep: Sendable {
    case receive(Int, after: AssetPart?, isFirstAttempt: Bool)
    case land(AssetLanding, rest: [UInt8], bytes: Int)
    case wait(Int, Duration)

    func begin(with steps: DownloadSteps) async -> DownloadEvent {
        switch self {
        case .receive(let index, let part, let isFirst):
            await steps.receive(index, after: part, isFirstAttempt: isFirst)
        case .land(let landing, let rest, let bytes): await steps.land(landing, rest, bytes: bytes)
        case .wait(let index, let delay): await steps.wait(index, delay)
        }
    }
}

/// A run's decisions: takes what happened, and says what comes next.
struct DownloadRun {
    private let jobs: [AssetJob]
    private let policy: DownloadPolicy
    private let random: (ClosedRange<Double>) -> Double
    private var schedule: DownloadSchedule
    private(set) var result = DownloadedAssets()

    init(_ jobs: [AssetJob], policy: DownloadPolicy, random: @escaping (ClosedRange<Double>) -> Double) {
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
        case .received(let landing, let rest, let bytes):
            schedule.received()
            return .land(landing, rest: rest, bytes: bytes)
        case .landed(let landing, .success(let receipt), let bytes):
            schedule.landed()
            complete(landing.index, receipt, bytes: bytes)
            return nil
        case .landed(let landing, .failure(let error), let bytes):
            schedule.landed()
            return try retry(landing.index, after: error, part: nil, bytes: bytes, reached: 0)
        case .failed(let index, let error, let part, let bytes, let reached):
            schedule.ended()
            if jobs[index].isOptional, let error = error as? FetchError, DownloadFailure.isAbsence(error) {
                complete(index, nil, bytes: bytes)
                return nil
            }
            return try retry(index, after: error, part: part, bytes: bytes, reached: reached)
        case .waited(let index):
            schedule.wake(index)
            return nil
        }
    }

    private mutating func complete(_ index: Int, _ receipt: AssetReceipt?, bytes: Int) {
        let bytes = bytes + schedule.complete(index)
        result.bytesFromNetwork += bytes
        if let receipt {
            result.assets.append(DownloadedAsset(job: index, receipt: receipt, bytesFromNetwork: bytes))
        } else {
            result.missing.append(index)
        }
    }

    private mutating func retry(
        _ index: Int, after error: any Error, part: AssetPart?, bytes: Int, reached: Int
    ) throws -> DownloadStep {
        let fetchError = error as? FetchError
        let mayPass = fetchError.map(RetryRule.mayPass) ?? (error is ResumedFileRefused)
        guard mayPass, let failures = schedule.fail(index, bytes: bytes, reached: reached, part: part) else {
            throw final(error, of: jobs[index])
        }
        let delay = RetryRule.delay(
            after: fetchError, failures: failures, jitter: random(0.75...1.25), policy: policy)
        return .wait(index, delay)
    }

    private func final(_ error: any Error, of job: AssetJob) -> any Error {
        switch error {
        case let error as FetchError: DownloadFailure.of(job, error)
        case let error as ResumedFileRefused: error.cause
        default: error
        }
    }
}
