import BundleValues

internal import BundleCore
internal import CCurl

/// One fetch on its way through its hops.
///
/// Sendable, unchecked: made by the fetching task, which hands it over; all state
/// below belongs to the thread of `CurlLoop`.
final class CurlTransfer: @unchecked Sendable {
    typealias Outcome = Result<FetchHead, any Error>

    /// What a callback returns to make libcurl abort: never the number of bytes it was given.
    static let stop = Int(CURL_WRITEFUNC_ERROR)
    /// An unwanted body up to this size is read to its end, so that the connection can be used again.
    private static let maximumUnwantedBytes = 64 * 1024

    private let request: FetchRequest
    private let options: FetchOptions
    private let sink: TransferSink
    /// Set before the transfer is handed over; called once, after the last use of the sink.
    var resume: @Sendable (Outcome) -> Void = { _ in }

    private var easy: CurlEasy?
    private var url: FetchURL
    private var redirects = 0
    private var head: ResponseHead
    private var verdict: ResponseVerdict?
    private var bodyBytes = 0
    private var failure: (any Error)?
    private var ceiling: SuspendingClock.Instant?
    private var pace: TransferPace?

    enum Custody { case caller, cancelledBefore, loop }

    /// Who has it; guarded by the lock of `CurlLoop`.
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

    /// The handle of the next hop, ready to be added to the multi handle.
    func prepareHop() throws(FetchError) -> UnsafeMutableRawPointer {
        if ceiling == nil { ceiling = .now.advanced(by: options.ceiling(maximumBytes: request.maximumBytes)) }
        if easy == nil { easy = CurlEasy() }
        head = ResponseHead(url: url, maximumBytes: options.maximumHeaderBytes)
        verdict = nil
        bodyBytes = 0
        pace = nil
        let context = Unmanaged.passUnretained(self).toOpaque()
        try easy?.prepare(url, resume: request.resume, options: options, context: context)
        guard let handle = easy?.handle else { throw .unreachable(url, reason: "there is no memory left") }
        return handle
    }

    /// Takes the end of a hop; nil means that there is another one to prepare.
    func endHop(_ code: CURLcode) -> Outcome? {
        if let failure { return .failure(failure) }
        switch verdict {
        case .refuse(let error):
            return .failure(error)
        case .follow(let next):
            url = next
            redirects += 1
            return nil
        case .accept(let head) where code == CURLE_OK:
            return .success(head)
        case .accept, nil:
            guard code == CURLE_OK else {
                let explanation = easy?.explanation ?? ""
                return .failure(CurlFailure.error(code, explanation: explanation, at: url, options: options))
            }
            return .failure(FetchError.invalidResponse(url, reason: "it has no header"))
        }
    }

    /// The error for a multi handle that does not work.
    func refusal(by code: CURLMcode) -> FetchError {
        .unreachable(url, reason: "libcurl failed: \(String(cString: curl_multi_strerror(code)))")
    }

    /// Lets go of libcurl's handle, then of the caller.
    func finish(_ outcome: Outcome) {
        easy = nil
        resume(outcome)
    }

    // MARK: Time

    /// Connected: from here on the server can be slow.
    func requestGoesOut() { pace = TransferPace(options: options, start: .now) }

    var nextCheck: SuspendingClock.Instant? {
        guard let ceiling else { return pace?.nextCheck }
        return pace.map { min($0.nextCheck, ceiling) } ?? ceiling
    }

    /// The outcome of a transfer whose time is over; nil lets it go on.
    func overdue(at now: SuspendingClock.Instant) -> Outcome? {
        let error: FetchError
        if let ceiling, now >= ceiling {
            error = .timedOut(url)
        } else if pace?.isTooSlow(at: now) == true {
            error = .tooSlow(url)
        } else {
            return nil
        }
        if case .refuse(let refusal) = verdict { return .failure(refusal) }
        return .failure(error)
    }

    // MARK: Bytes; false aborts the hop

    func take(headerLine line: UnsafeRawBufferPointer) -> Bool {
        return attempt {
            try head.take(line: line)
            guard head.isComplete, verdict == nil else { return true }
            let rule = ResponseRule(request: request, maximumRedirects: options.maximumRedirects)
            let decided = rule.verdict(on: head, at: url, redirects: redirects)
            verdict = decided
            guard case .accept(let accepted) = decided else { return true }
            try sink.begin(accepted)
            return true
        }
    }

    func take(body chunk: UnsafeRawBufferPointer) -> Bool {
        bodyBytes += chunk.count
        defer { pace?.received(chunk.count, at: .now) }
        guard case .accept(let accepted) = verdict else { return bodyBytes <= Self.maximumUnwantedBytes }
        return attempt {
            // Without overflow: an accepted start is at most the limit.
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

/// A sink with its type forgotten.
struct TransferSink {
    var begin: (FetchHead) throws -> Void
    var receive: (UnsafeRawBufferPointer) throws -> Void
}

/// Keeps a sink in one place while another thread uses it.
///
/// `@unchecked Sendable`: the fetching task moves the sink in, waits, and moves it out after the thread's last use.
final class SinkCell<Sink: FetchSink & ~Copyable>: @unchecked Sendable {
    private let place: UnsafeMutablePointer<Sink>

    init(_ sink: consuming sending Sink) {
        place = .allocate(capacity: 1)
        place.initialize(to: sink)
    }

    deinit { place.deallocate() }

    /// Must be called exactly once, after the transfer.
    func takeBack() -> sending Sink { place.move() }

    var erased: TransferSink {
        TransferSink(
            begin: { try self.place.pointee.begin($0) },
            receive: { try self.place.pointee.receive($0) })
    }
}
