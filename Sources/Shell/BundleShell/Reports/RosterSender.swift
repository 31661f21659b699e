package import BundleCore
import BundleSigning
import BundleTransport
package import BundleValues
import Synchronization

/// Sends the state of a device to a roster. It waits for nothing and nothing waits for it: an update is never delayed.
package final class RosterSender: Sendable {
    private static let timeout = Duration.seconds(30)
    /// The first message follows the first check, which comes within a minute.
    private static let firstDelay = 60.0...90

    private let store: String
    private let identity: RosterIdentity
    private let url: FetchURL
    private let fetcher: any Fetcher
    private let windows: ActivationWindows?
    private let findings: @Sendable () async -> [String]
    private let environment: Environment
    private let stopwatch: Stopwatch
    private let plan: Mutex<Plan>

    /// A picture of the screen that goes with the next message.
    private struct OfferedPicture: Sendable {
        let picture: ScreenPicture
        let taken: Timestamp
        let isAllowed: @Sendable () -> Bool
    }

    private struct Plan {
        var condition = DeviceCondition()
        var pace: RosterPace
        var isShown = false
        var isBlank = false
        var state: LaunchState?
        var wake: AsyncStream<Void>.Continuation?
        var pictures: [PicturePost.Kind: OfferedPicture] = [:]

        mutating func show(_ state: LaunchState) {
            self.state = state
            switch state {
            case .client, .guests, .updateRequired: break
            case .signedOut, .locked, .maintenance, .waiting, .failure: isShown = false
            }
        }

        /// The condition for the next message. A client is on the screen once a page was loaded.
        var now: DeviceCondition {
            var condition = condition
            condition.screen = state?.screen(isShown: isShown)
            if isBlank, condition.screen == .client { condition.findings.append(FailureCode.blankScreen.rawValue) }
            return condition
        }
    }

    /// Creates a sender for the device with the store at `store`. `findings` returns the codes of the doctor's findings that need
    /// attention.
    package init(
        store: String, _ identity: RosterIdentity, to url: FetchURL, by fetcher: any Fetcher,
        windows: ActivationWindows? = nil, environment: Environment = Environment(),
        findings: @escaping @Sendable () async -> [String]
    ) {
        self.store = store
        self.identity = identity
        self.url = url
        self.fetcher = fetcher
        self.windows = windows
        self.findings = findings
        self.environment = environment
        stopwatch = Stopwatch(environment.clock)
        plan = Mutex(
            Plan(pace: RosterPace(every: identity.interval, first: .seconds(environment.random(Self.firstDelay)))))
    }

    /// Returns the longest time between two messages of a device that checks for updates every `interval`.
    package static func interval(ofChecks interval: Duration) -> Duration { RosterPace.interval(ofChecks: interval) }

    // MARK: Events

    /// Records an event of the shell. A verdict is sent within 10 seconds, a check after at most 5 minutes.
    package func note(_ event: ShellEvent) {
        switch event {
        case .checked(let failure, _): noteCheck(failure)
        case .launched:
            change { ($0.isShown, $0.isBlank) = (true, false) }
        case .blank(_, let isOver):
            change { $0.isBlank = !isOver }
            noteEvent()
        case .confirmed, .rolledBack, .unconfirmed: noteEvent()
        case .downloading, .updateAvailable, .installed, .failed, .complained: break
        }
    }

    /// Records the end of a check and its failure.
    package func noteCheck(_ failure: UpdateFailure?) {
        change {
            ($0.condition.checked, $0.condition.code) = (.now, failure.map(RosterReading.code))
            $0.pace.noteCheck(at: stopwatch.elapsed)
        }
    }

    /// Records the state of the screen. A lock or another session is sent within 10 seconds.
    package func note(_ state: LaunchState) {
        let isChange = plan.withLock { plan in
            defer { plan.show(state) }
            return plan.state.map { $0 != state } ?? false
        }
        if isChange { noteEvent() }
    }

    /// Records that the page in front was lost, which is sent within 10 seconds.
    package func notePageLost() { noteEvent() }

    /// Sends a picture of the screen, taken now, after the state within 10 seconds; not at all if `isAllowed` is false by then.
    package func offer(
        _ picture: ScreenPicture, _ kind: PicturePost.Kind, if isAllowed: @escaping @Sendable () -> Bool
    ) {
        change { $0.pictures[kind] = OfferedPicture(picture: picture, taken: .now, isAllowed: isAllowed) }
        noteEvent()
    }

    private func noteEvent() {
        let delay = RosterPace.eventPause * environment.random(0...0.6)
        change { $0.pace.noteEvent(at: stopwatch.elapsed, delay: delay) }
    }

    private func change(_ body: (inout Plan) -> Void) {
        plan.withLock { plan in
            body(&plan)
            plan.wake?.yield()
        }
    }

    // MARK: Sending

    /// Sends when a message is due, until the task is cancelled. `say` receives each new failure once.
    package func run(_ say: (any Error) -> Void) async {
        let (wakes, wake) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        plan.withLock { $0.wake = wake }
        wake.yield()
        var timer: Task<Void, Never>?
        defer { timer?.cancel() }
        var (lastFailure, lastPictureFailure) = (String?.none, String?.none)
        for await _ in wakes {
            timer?.cancel()
            let left = plan.withLock(\.pace.next) - stopwatch.elapsed
            if left > .zero {
                timer = Task { [clock = environment.clock] in
                    do { try await clock.sleep(for: left) } catch { return }
                    wake.yield()
                }
                continue
            }
            var failure: (any Error)?
            plan.withLock { $0.pace.begin(at: stopwatch.elapsed) }
            do { try await send(within: Self.timeout) } catch { failure = error }
            if Task.isCancelled { return }
            let asked = (failure as? FetchError)?.retryAfter
            change { $0.pace.end(at: stopwatch.elapsed, failed: failure != nil, asked: asked) }
            if let failure, "\(failure)" != lastFailure { say(failure) }
            lastFailure = failure.map { "\($0)" }
            if failure != nil { continue }
            // A host without pictures must not delay the next state.
            do {
                if try await sendPictures(within: Self.timeout) { lastPictureFailure = nil }
            } catch {
                if "\(error)" != lastPictureFailure { say(error) }
                lastPictureFailure = "\(error)"
            }
        }
    }

    /// Sends the present state, with a timeout of `limit` for each of at most two requests. Sends nothing before the device has its identity. Throws `UpdateFailure` if the host has pinned another key.
    package func send(within limit: Duration) async throws {
        var condition = plan.withLock(\.now)
        condition.isOutsideWindows = windows?.isOpen(at: .now) == false
        condition.findings += await findings()
        let made = try await onThread { [store, identity, condition] in try Self.uploads(store, identity, condition) }
        guard let made else { return }
        do {
            do {
                try await post(made.upload, to: url, within: limit)
            } catch FetchError.httpStatus(400, _, _) {
                guard let first = made.forFirstHosts else { throw FetchError.httpStatus(400, url, retryAfter: nil) }
                try await post(first, to: url, within: limit)
            }
        } catch FetchError.httpStatus(409, let url, _) {
            throw UpdateFailure(
                .httpStatus, subject: url.display,
                "The roster at \(url.display) has pinned another key for this device: its store is new, or another device has its ID. If the store is new, run `clientctl fleet forget` for it."
            )
        }
    }

    /// Sends the offered pictures that are allowed. Returns whether there were any.
    private func sendPictures(within limit: Duration) async throws -> Bool {
        let pictures = plan.withLock { plan in
            defer { plan.pictures = [:] }
            return plan.pictures
        }
        for (kind, offered) in pictures.sorted(by: { $0.value.taken < $1.value.taken }) where offered.isAllowed() {
            let made = try await onThread { [store, identity] () throws -> FetchRequest.Upload? in
                let key = try DeviceKeyFile.key(inStore: store)
                guard let device = try Self.device(identity, try Inventory.read(at: store).ledger, key) else {
                    return nil
                }
                let post = PicturePost(device: device, kind: kind, taken: offered.taken, picture: offered.picture)
                return try Self.signed(post.bytes, with: key)
            }
            guard let upload = made, offered.isAllowed() else { continue }
            let address = try PicturePost.address(of: url)
            do {
                try await post(upload, to: address, within: limit)
            } catch FetchError.httpStatus(404, let address, _) {
                throw UpdateFailure(
                    .httpStatus, subject: address.display,
                    "The roster at \(url.display) keeps no pictures. Start its host with --roster-pictures, or this device without --picture."
                )
            }
        }
        return !pictures.isEmpty
    }

    private func post(_ upload: FetchRequest.Upload, to address: FetchURL, within limit: Duration) async throws {
        do {
            try await BundleTransport.within(limit, else: .timedOut(.connecting), on: environment.clock) {
                [fetcher] in
                try await fetcher.post(upload, to: address)
            }
        } catch is TransportError {
            throw FetchError.timedOut(address)
        }
    }

    private static func uploads(
        _ store: String, _ identity: RosterIdentity, _ condition: DeviceCondition
    ) throws -> (upload: FetchRequest.Upload, forFirstHosts: FetchRequest.Upload?)? {
        let key = try DeviceKeyFile.key(inStore: store)
        let ledger = try Inventory.read(at: store).ledger
        guard let device = try device(identity, ledger, key) else { return nil }
        let post = RosterReading.post(of: device, identity, ledger, condition)
        return (try signed(post.bytes, with: key), try post.forFirstHosts.map { try signed($0.bytes, with: key) })
    }

    private static func device(
        _ identity: RosterIdentity, _ ledger: Ledger, _ key: borrowing DeviceKey
    ) throws -> String? {
        try RosterReading.device(ledger, identity, machine: MachineIdentity.deviceId(), keyId: key.publicKey.id)
    }

    private static func signed(
        _ body: [UInt8], with key: borrowing DeviceKey
    ) throws -> FetchRequest.Upload {
        let signature = try DeviceSignature(signing: body, with: key)
        return FetchRequest.Upload(type: "application/json", bytes: body, deviceKey: signature.field)
    }
}

extension LaunchState {
    /// The state for a roster.
    fileprivate func screen(isShown: Bool) -> RosterPost.ShownScreen {
        switch self {
        case .client: isShown ? .client : .starting
        case .guests: isShown ? .guests : .starting
        case .updateRequired: isShown ? .updateRequired : .starting
        case .signedOut: .signedOut
        case .locked: .locked
        case .maintenance: .maintenance
        case .waiting: .waiting
        case .failure: .failure
        }
    }
}

/// Decides when a device sends its next message to a roster. Times are readings of a monotonic clock.
struct RosterPace: Sendable, Equatable {
    /// The shortest time between two messages after checks.
    static let checkPause = Duration.seconds(300)
    /// The shortest time between two messages after other events, so that an event is sent within 10 seconds.
    static let eventPause = Duration.seconds(5)

    private let interval: Duration
    private var sent: Duration?
    private var failures = 0
    private var notBefore = Duration.zero
    /// The earliest times at which an event and a check may be sent; nil if there was none since the last message.
    private var event: Duration?
    private var check: Duration?

    /// Plans messages at least every `interval`. The first one follows the first check or event, or `delay` if there is none.
    init(every interval: Duration, first delay: Duration) {
        self.interval = interval
        check = delay
    }

    /// The longest time between two messages.
    static func interval(ofChecks interval: Duration) -> Duration { max(checkPause, interval) }

    /// Records the end of a check at `now`.
    mutating func noteCheck(at now: Duration) { check = min(check ?? now, now) }

    /// Records another event at `now`, which is sent after `delay`, a random part of `eventPause`.
    mutating func noteEvent(at now: Duration, delay: Duration) { event = min(event ?? now + delay, now + delay) }

    /// The time of the next message.
    var next: Duration {
        let last = sent ?? .zero
        let due =
            [
                event.map { max($0, sent.map { $0 + Self.eventPause } ?? .zero) },
                check.map { max($0, sent.map { $0 + Self.checkPause } ?? .zero) }, last + interval,
            ].compactMap(\.self).min() ?? last + interval
        return max(due, notBefore)
    }

    /// Records that a message begins at `now`. It includes the events and checks so far; later ones need another message.
    mutating func begin(at now: Duration) {
        sent = now
        (event, check) = (nil, nil)
    }

    /// Records the end of the attempt at `now`. After a failure the next one follows a pause that grows up to the interval; `asked` is
    /// the minimum that the host asked for.
    mutating func end(at now: Duration, failed: Bool, asked: Duration?) {
        sent = now
        if failed {
            failures += 1
            let pause = min(interval, .seconds(60) * (1 << min(failures - 1, 10)))
            notBefore = now + max(min(asked ?? .zero, .seconds(3600)), min(pause, interval))
            check = now
        } else {
            failures = 0
            notBefore = .zero
        }
    }
}
