import BundleValues
internal import CCurl

/// One fetch with all its redirects.
///
/// Unchecked `Sendable`: the fetching task creates it and hands it over to the thread of `CurlLoop`, which then owns
/// its state.
final class CurlTransfer: @unchecked Sendable {
    typealias Outcome = Result<FetchHead, any Error>

    /// The return value of a callback that aborts the transfer. It differs from every number of bytes.
    static let stop = Int(CURL_WRITEFUNC_ERROR)
    /// The return value of a callback that pauses the transfer.
    static let hold = Int(CURL_WRITEFUNC_PAUSE)
    /// The largest unwanted body that is read to its end, so that the connection can be reused.
    private static let maximumUnwantedBytes = 64 * 1024

    private let request: FetchRequest
    private let options: FetchOptions
    private let sink: TransferSink
    /// Set before the transfer is submitted, and called once after the last use of the sink.
    var resume: @Sendable (Outcome) -> Void = { _ in }

    private var easy: CurlEasy?
    private var url: FetchURL
    private var redirects = 0
    private var head: ResponseHead
    private var decision: ResponseDecision?
    private var bodyBytes = 0
    private var failure: (any Error)?
    private var ceiling: SuspendingClock.Instant?
    private var pace: TransferPace?
    /// The time since which the rate limit pauses the transfer; nil while it receives.
    private var heldSince: SuspendingClock.Instant?
    /// The first bytes of a refused response, which name the cause.
    private var refusedBody: [UInt8] = []

    enum Custody { case caller, cancelledBefore, loop }

    /// The owner of the transfer, guarded by the lock of `CurlLoop`. A cancellation before `submit` must not reach the
    /// loop.
    var custody = Custody.caller

    init(_ request: FetchRequest, options: FetchOptions, sink: TransferSink) {
        self.request = request
        self.options = options
        self.sink = sink
        url = request.url
        head = ResponseHead(url: request.url, maximumBytes: options.maximumHeaderBytes)
    }

    static func from(_ context: UnsafeMutableRawPointer?) -> CurlTransfer? {
        context.map { Unmanaged<CurlTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Hops

    /// Returns the handle of the next hop, ready for the multi handle.
    func prepareHop() throws(FetchError) -> UnsafeMutableRawPointer {
        if ceiling == nil { ceiling = .now.advanced(by: options.ceiling(maximumBytes: request.maximumBytes)) }
        if easy == nil { easy = CurlEasy() }
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
        decision = nil
        bodyBytes = 0
        pace = nil
        heldSince = nil
        refusedBody = []
        let context = Unmanaged.passUnretained(self).toOpaque()
        try easy?.prepare(url, for: request, options: options, context: context)
        guard let handle = easy?.handle else { throw .exhausted(url, reason: "there is not enough memory") }
        return handle
    }

    /// Ends a hop. Returns nil if a redirect requires another hop.
    func endHop(_ code: CURLcode) -> Outcome? {
        if let failure { return .failure(failure) }
        switch decision {
        case .refuse(let error):
            return .failure(CurlFailure.certificateError(after: error, refusedBody, options) ?? error)
        case .follow(let next):
            url = next
            redirects += 1
            return nil
        case .accept(let head) where code == CURLE_OK:
            return .success(head)
        case .accept, nil:
            guard code == CURLE_OK else {
                let (explanation, systemError) = (easy?.explanation ?? "", easy?.systemError ?? 0)
                return .failure(
                    CurlFailure.error(
                        code, explanation: explanation, systemError: systemError, at: url, options: options))
            }
            return .failure(FetchError.invalidResponse(url, reason: "it has no header"))
        }
    }

    /// Returns the error for a failed multi handle.
    func refusal(by code: CURLMcode) -> FetchError {
        .unreachable(url, reason: "libcurl failed: \(String(cString: curl_multi_strerror(code)))")
    }

    /// Releases libcurl's handle, then resumes the caller.
    func finish(_ outcome: Outcome) {
        easy = nil
        resume(outcome)
    }

    // MARK: Time

    /// Starts the measurement of the server's rate after the connection.
    func requestStarted() { pace = TransferPace(options: options, start: .now) }

    /// Whether the rate limit pauses the transfer.
    var isHeld: Bool { heldSince != nil }

    /// Continues a paused transfer. libcurl passes on the bytes that it kept during the call. The pause does not count for any timeout.
    func proceed(_ handle: UnsafeMutableRawPointer, at now: SuspendingClock.Instant) {
        guard let since = heldSince else { return }
        heldSince = nil
        ceiling = ceiling.map { $0.advanced(by: since.duration(to: now)) }
        pace = TransferPace(options: options, start: now)
        let code = curl_easy_pause(handle, CURLPAUSE_CONT)
        if code != CURLE_OK, failure == nil {
            failure = FetchError.unreachable(url, reason: "libcurl cannot continue: \(CurlFailure.name(code))")
        }
    }

    var nextCheck: SuspendingClock.Instant? {
        if isHeld { return nil }
        guard let ceiling else { return pace?.nextCheck }
        return pace.map { min($0.nextCheck, ceiling) } ?? ceiling
    }

    /// Returns the outcome of a transfer that exceeded a timeout; nil if it may continue.
    func overdue(at now: SuspendingClock.Instant) -> Outcome? {
        if let failure { return .failure(failure) }
        if isHeld { return nil }
        let error: FetchError
        if let ceiling, now >= ceiling {
            error = .timedOut(url)
        } else if pace?.isTooSlow(at: now) == true {
            error = .tooSlow(url)
        } else {
            return nil
        }
        if case .refuse(let refusal) = decision { return .failure(refusal) }
        return .failure(error)
    }

    // MARK: Received bytes; false aborts the hop

    func receive(headerLine line: UnsafeRawBufferPointer) -> Bool {
        return attempt {
            try head.append(line: line)
            guard head.isComplete, decision == nil else { return true }
            let rule = ResponseRule(request: request, maximumRedirects: options.maximumRedirects)
            let decided = rule.decision(on: head, at: url, redirects: redirects)
            decision = decided
            guard case .accept(let accepted) = decided, accepted.status != 304 else { return true }
            try sink.begin(accepted)
            return true
        }
    }

    /// Returns false if the rate limit does not allow further bytes yet. libcurl then keeps the chunk and stops reading.
    func mayReceive() -> Bool {
        guard let traffic = options.traffic, traffic.delay > .zero else { return true }
        heldSince = .now
        return false
    }

    func receive(body chunk: UnsafeRawBufferPointer) -> Bool {
        bodyBytes += chunk.count
        options.traffic?.receive(chunk.count)
        defer { pace?.received(chunk.count, at: .now) }
        guard case .accept(let accepted) = decision, accepted.status != 304 else {
            refusedBody += chunk.prefix(512 - min(512, refusedBody.count))
            return bodyBytes <= Self.maximumUnwantedBytes
        }
        return attempt {
            // Does not overflow, because an accepted start is at most the limit.
            guard bodyBytes <= request.maximumBytes - (accepted.rangeStart ?? 0) else {
                throw FetchError.tooLarge(limit: request.maximumBytes, url)
            }
            try sink.receive(chunk)
            return true
        }
    }

    private func attempt(_ step: () throws -> Bool) -> Bool {
        do {
            return try step()
        } catch {
            failure = error
            return false
        }
    }
}

/// A type-erased sink.
struct TransferSink {
    var begin: (FetchHead) throws -> Void
    var receive: (UnsafeRawBufferPointer) throws -> Void
}

/// Stores a sink while another thread uses it.
///
/// Unchecked `Sendable`: the fetching task moves the sink in, waits, and moves it out after the thread's last use.
final class SinkCell<Sink: FetchSink & ~Copyable>: @unchecked Sendable {
    private let pointer: UnsafeMutablePointer<Sink>

    init(_ sink: consuming Sink) {
        pointer = .allocate(capacity: 1)
        pointer.initialize(to: sink)
    }

    deinit { pointer.deallocate() }

    /// Returns the sink. Called exactly once, after the transfer.
    func moveOut() -> Sink { pointer.move() }

    var erased: TransferSink {
        TransferSink(
            begin: { try self.pointer.pointee.begin($0) },
            receive: { try self.pointer.pointee.receive($0) })
    }
}
