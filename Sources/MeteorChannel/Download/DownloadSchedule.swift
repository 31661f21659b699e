/// What of a run is under way, and what comes next; it only counts.
struct DownloadSchedule {
    /// Files received but not yet written; so many may be in memory at once.
    private static let landings = 32

    private struct Trouble {
        var failures = 0
        var reached = 0
        var bytes = 0
        var part: AssetPart?
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
    mutating func start() -> (index: Int, part: AssetPart?, isFirstAttempt: Bool)? {
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

    /// Notes an attempt that failed after `bytes` of body, `reached` bytes into the file. Says how many before it, in a row,
    /// brought nothing either; nil when there have been enough.
    mutating func fail(_ index: Int, bytes: Int, reached: Int, part: AssetPart?) -> Int? {
        retries += 1
        var trouble = troubles[index] ?? Trouble()
        if reached > trouble.reached {
            trouble.reached = reached
            trouble.failures = 0
        }
        trouble.failures += 1
        trouble.bytes += bytes
        trouble.part = part
        troubles[index] = trouble
        guard trouble.failures < policy.attempts, retries <= policy.retries else { return nil }
        waiting += 1
        return trouble.failures - 1
    }

    /// A wait is over.
    mutating func wake(_ index: Int) {
        waiting -= 1
        ready.append(index)
    }
}
