import BundleValues
internal import CCurl
internal import CLibrary
internal import Synchronization

/// Runs all transfers of one fetcher on the thread that owns libcurl's multi handle.
final class CurlLoop: Sendable {
    private struct Inbox {
        var arrivals: [CurlTransfer] = []
        var cancellations: [CurlTransfer] = []
        var isStopping = false
    }

    private let inbox = Mutex(Inbox())
    private let multi: MultiHandle
    private let maximumTransfers: Int
    private let traffic: Traffic?

    /// Returns nil without enough memory.
    init?(maximumTransfers: Int, traffic: Traffic? = nil) {
        self.traffic = traffic
        self.maximumTransfers = max(1, maximumTransfers)
        guard let multi = MultiHandle(connections: self.maximumTransfers) else { return nil }
        self.multi = multi
    }

    // MARK: From any thread

    /// Accepts a transfer, unless its task was cancelled before.
    func submit(_ transfer: CurlTransfer) {
        let isAccepted = inbox.withLock { inbox in
            guard transfer.custody == .caller else { return false }
            transfer.custody = .loop
            inbox.arrivals.append(transfer)
            return true
        }
        guard isAccepted else { return transfer.finish(.failure(CancellationError())) }
        curl_multi_wakeup(multi.pointer)
    }

    func cancel(_ transfer: CurlTransfer) {
        inbox.withLock { inbox in
            if transfer.custody == .loop {
                inbox.cancellations.append(transfer)
            } else {
                transfer.custody = .cancelledBefore
            }
        }
        curl_multi_wakeup(multi.pointer)
    }

    func stop() {
        inbox.withLock { $0.isStopping = true }
        curl_multi_wakeup(multi.pointer)
    }

    // MARK: On the thread

    /// Runs until `stop` was called and the last transfer has ended.
    func run() {
        var waiting: [CurlTransfer] = []
        var running: [UnsafeMutableRawPointer: CurlTransfer] = [:]
        var held: [UnsafeMutableRawPointer] = []
        while true {
            let received = inbox.withLock { inbox in
                defer {
                    inbox.arrivals = []
                    inbox.cancellations = []
                }
                return inbox
            }
            waiting += received.arrivals
            cancel(received.cancellations, waiting: &waiting, running: &running)
            while running.count < maximumTransfers, !waiting.isEmpty { addHop(of: waiting.removeFirst(), &running) }
            proceed(&held, running)
            var count: Int32 = 0
            let code = curl_multi_perform(multi.pointer, &count)
            let hasNextHops = collectEnded(&running)
            endOverdue(&running)
            if code != CURLM_OK { endAll(&running, code) }
            if received.isStopping, waiting.isEmpty, running.isEmpty { return }
            if hasNextHops || (!waiting.isEmpty && running.count < maximumTransfers) { continue }
            curl_multi_poll(multi.pointer, nil, 0, pause(running), nil)
        }
    }

    /// Continues the transfers that the rate limit paused, the first one first, while it allows bytes.
    private func proceed(
        _ held: inout [UnsafeMutableRawPointer], _ running: [UnsafeMutableRawPointer: CurlTransfer]
    ) {
        guard let traffic else { return }
        held.removeAll { running[$0]?.isHeld != true }
        held += running.filter { $0.value.isHeld && !held.contains($0.key) }.keys
        while !held.isEmpty, traffic.delay == .zero {
            let handle = held.removeFirst()
            running[handle]?.proceed(handle, at: .now)
        }
    }

    private func cancel(
        _ cancelled: [CurlTransfer], waiting: inout [CurlTransfer],
        running: inout [UnsafeMutableRawPointer: CurlTransfer]
    ) {
        guard !cancelled.isEmpty else { return }
        // A transfer that has ended is in neither collection.
        let cancelled = Set(cancelled.map(ObjectIdentifier.init))
        waiting.removeAll { transfer in
            let isCancelled = cancelled.contains(ObjectIdentifier(transfer))
            if isCancelled { transfer.finish(.failure(CancellationError())) }
            return isCancelled
        }
        for (handle, transfer) in running where cancelled.contains(ObjectIdentifier(transfer)) {
            end(handle, .failure(CancellationError()), &running)
        }
    }

    private func addHop(of transfer: CurlTransfer, _ running: inout [UnsafeMutableRawPointer: CurlTransfer]) {
        do throws(FetchError) {
            let handle = try transfer.prepareHop()
            running[handle] = transfer
            let code = curl_multi_add_handle(multi.pointer, handle)
            if code != CURLM_OK { end(handle, .failure(transfer.refusal(by: code)), &running) }
        } catch {
            transfer.finish(.failure(error))
        }
    }

    /// Ends completed hops. Returns true if a redirect added a hop that has not started.
    private func collectEnded(_ running: inout [UnsafeMutableRawPointer: CurlTransfer]) -> Bool {
        var hasNextHops = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi.pointer, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = running[handle]
            else { continue }
            // Removing the handle frees the message.
            let outcome = transfer.endHop(message.pointee.data.result)
            if let outcome {
                end(handle, outcome, &running)
            } else {
                curl_multi_remove_handle(multi.pointer, handle)
                running[handle] = nil
                addHop(of: transfer, &running)
                hasNextHops = true
            }
        }
        return hasNextHops
    }

    private func endOverdue(_ running: inout [UnsafeMutableRawPointer: CurlTransfer]) {
        guard !running.isEmpty else { return }
        let now = SuspendingClock.now
        for (handle, transfer) in running {
            if let outcome = transfer.overdue(at: now) { end(handle, outcome, &running) }
        }
    }

    private func endAll(_ running: inout [UnsafeMutableRawPointer: CurlTransfer], _ code: CURLMcode) {
        for (handle, transfer) in running { end(handle, .failure(transfer.refusal(by: code)), &running) }
    }

    private func end(
        _ handle: UnsafeMutableRawPointer, _ outcome: CurlTransfer.Outcome,
        _ running: inout [UnsafeMutableRawPointer: CurlTransfer]
    ) {
        curl_multi_remove_handle(multi.pointer, handle)
        running.removeValue(forKey: handle)?.finish(outcome)
    }

    /// The longest wait for a transfer whose wake-up was lost. Its caller may hold the store's lock.
    private static let idle = Duration.seconds(5)

    /// Returns the milliseconds until the next timeout. libcurl shortens the wait for its own timeouts, and a wake-up
    /// ends it.
    private func pause(_ running: [UnsafeMutableRawPointer: CurlTransfer]) -> Int32 {
        let now = SuspendingClock.now
        var pauses = running.values.compactMap { $0.nextCheck.map { now.duration(to: $0) } }
        if let traffic, running.values.contains(where: \.isHeld) { pauses.append(traffic.delay) }
        return Int32(clamping: min(Self.idle, pauses.min() ?? Self.idle).wholeMilliseconds)
    }
}

/// A `CurlLoop` on its own thread, which ends with this object.
final class CurlThread: Sendable {
    let loop: CurlLoop
    private let thread: BlockingThread

    /// The global initialization of libcurl, once for each process.
    static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// Returns nil without enough memory, or if no thread can be created.
    init?(maximumTransfers: Int, traffic: Traffic? = nil) {
        guard Self.isReady, let loop = CurlLoop(maximumTransfers: maximumTransfers, traffic: traffic),
            let thread = try? BlockingThread({ loop.run() })
        else { return nil }
        self.loop = loop
        self.thread = thread
    }

    deinit {
        loop.stop()
        thread.join()
    }
}

/// libcurl's multi handle with its connections.
///
/// Unchecked `Sendable`: any thread may call `curl_multi_wakeup`; one thread makes all other calls.
struct MultiHandle: ~Copyable, @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Keeps up to `connections` open between transfers. libcurl's default of four for each running transfer would
    /// close almost all of them. Returns nil without enough memory.
    init?(connections: Int) {
        guard let pointer = curl_multi_init() else { return nil }
        ccurl_multi_set_long(pointer, CURLMOPT_MAXCONNECTS, connections)
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
