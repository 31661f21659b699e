internal import BundleCore
import BundleThreads
import BundleValues
internal import CCurl
internal import Glibc
internal import Synchronization

/// The thread that owns libcurl's multi handle and moves all transfers of one fetcher.
final class CurlLoop: Sendable {
    private struct Inbox {
        var arrivals: [CurlTransfer] = []
        var cancellations: [CurlTransfer] = []
        var isStopping = false
    }

    private let inbox = Mutex(Inbox())
    private let multi: MultiHandle
    private let maximumTransfers: Int

    /// Nil when there is no memory.
    init?(maximumTransfers: Int) {
        self.maximumTransfers = max(1, maximumTransfers)
        guard let multi = MultiHandle(connections: self.maximumTransfers) else { return nil }
        self.multi = multi
    }

    // MARK: From any thread

    /// Takes over a transfer, unless its task was cancelled before.
    func submit(_ transfer: CurlTransfer) {
        let isTaken = inbox.withLock { inbox in
            guard transfer.custody == .caller else { return false }
            transfer.custody = .loop
            inbox.arrivals.append(transfer)
            return true
        }
        guard isTaken else { return transfer.finish(.failure(CancellationError())) }
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

    /// Runs until `stop` and the end of the last transfer.
    func run() {
        var waiting: [CurlTransfer] = []
        var running: [UnsafeMutableRawPointer: CurlTransfer] = [:]
        while true {
            let news = inbox.withLock { inbox in
                defer {
                    inbox.arrivals = []
                    inbox.cancellations = []
                }
                return inbox
            }
            waiting += news.arrivals
            cancel(news.cancellations, waiting: &waiting, running: &running)
            while running.count < maximumTransfers, !waiting.isEmpty { addHop(of: waiting.removeFirst(), &running) }
            var count: Int32 = 0
            let code = curl_multi_perform(multi.pointer, &count)
            let hasNextHops = collectEnded(&running)
            endOverdue(&running)
            if code != CURLM_OK { endAll(&running, code) }
            if news.isStopping, waiting.isEmpty, running.isEmpty { return }
            if hasNextHops || (!waiting.isEmpty && running.count < maximumTransfers) { continue }
            curl_multi_poll(multi.pointer, nil, 0, pause(running), nil)
        }
    }

    private func cancel(
        _ cancelled: [CurlTransfer], waiting: inout [CurlTransfer],
        running: inout [UnsafeMutableRawPointer: CurlTransfer]
    ) {
        guard !cancelled.isEmpty else { return }
        // One that has ended meanwhile is in neither.
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

    /// True when a redirect added a transfer that has not moved yet.
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

    /// The longest wait for an arrival whose wake-up was lost. The caller of the transfer can hold the store's lock.
    private static let idle = Duration.seconds(5)

    /// Milliseconds until something is due; libcurl shortens it for its own time-outs, an arrival by waking.
    private func pause(_ running: [UnsafeMutableRawPointer: CurlTransfer]) -> Int32 {
        let now = SuspendingClock.now
        let pauses = running.values.compactMap { $0.nextCheck.map { now.duration(to: $0) } }
        return Int32(clamping: min(Self.idle, pauses.min() ?? Self.idle).wholeMilliseconds)
    }
}

/// A `CurlLoop` on a thread of its own; ends with its owner.
final class CurlThread: Sendable {
    let loop: CurlLoop
    private let thread: BlockingThread

    /// libcurl's own set-up, which a process needs once.
    static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// Nil when there is no memory or no thread to be had.
    init?(maximumTransfers: Int) {
        guard Self.isReady, let loop = CurlLoop(maximumTransfers: maximumTransfers),
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

/// libcurl's multi handle, with its connections.
///
/// `@unchecked Sendable`: `curl_multi_wakeup` may be called from any thread; everything else is called by one.
struct MultiHandle: ~Copyable, @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Nil when there is no memory. Keeps up to `connections` open for what comes next: by itself libcurl keeps four for each
    /// transfer that runs at the moment, and between two of them that is next to none.
    init?(connections: Int) {
        guard let pointer = curl_multi_init() else { return nil }
        ccurl_multi_set_long(pointer, CURLMOPT_MAXCONNECTS, connections)
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
