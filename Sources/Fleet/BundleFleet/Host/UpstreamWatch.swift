import BundleFormats
import ArchiveSource
import BundleTransport
package import BundleValues
import Synchronization

/// The feed that a relay announces.
package struct Upstream: Sendable {
    let url: FetchURL
    let channels: [String]
    let fetcher: any Fetcher

    /// `url` is the folder of the feed on a web server, with or without a trailing slash. Only `channels` are watched; if
    /// it is empty, all subscribed ones are. Throws `FetchError.unsupportedURL` for an invalid URL.
    package init(_ url: FetchURL, channels: [String], fetcher: any Fetcher) throws(FetchError) {
        if url.isFile {
            throw .unsupportedURL(
                url.display, reason: "an upstream must be on a web server; `feed serve FOLDER` announces a folder")
        }
        if url.target.contains("?") || url.hasFragment {
            throw .unsupportedURL(url.display, reason: "the URL of a feed must not have a query or fragment")
        }
        self.url = url.path.hasSuffix("/") ? url : try FetchURL(parsing: url.description + "/")
        self.channels = channels
        self.fetcher = fetcher
    }

    func document(of channel: String) throws -> FetchURL {
        try url.resolve(relative: "channels/\(ChannelFileName.file(of: channel))")
    }
}

/// Polls the channel files of an upstream once a second, each on its own, and passes their sequences to an `Announcer`.
final class UpstreamWatch: ChannelWatch {
    private let upstream: Upstream
    private let announcer: Announcer
    private let environment: Environment
    private let subscriptions: Mutex<Subscriptions>
    private let wanted: AsyncStream<String>
    private let want: AsyncStream<String>.Continuation
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ upstream: Upstream, announcer: Announcer, environment: Environment) {
        self.upstream = upstream
        self.announcer = announcer
        self.environment = environment
        (wanted, want) = AsyncStream.makeStream()
        let configured = Subscriptions(to: upstream.channels)
        for channel in configured.channels { want.yield(channel) }
        subscriptions = Mutex(configured)
    }

    func begin() {
        let running = Task { await run() }
        task.withLock { $0 = running }
    }

    func stop() async {
        want.finish()
        let running = task.withLock { $0 }
        running?.cancel()
        await running?.value
    }

    // MARK: Sockets

    /// Adds a socket. Returns whether `leave` must be called when it disconnects.
    func enter(_ subscription: ChannelSubscription) -> Bool {
        let name = subscription.channel ?? ChannelFileName.standard
        switch subscriptions.withLock({ $0.enter(subscription) }) {
        case .starts:
            want.yield(name)
            return true
        case .joins, .waits(isFirst: false): return true
        case .waits(isFirst: true):
            environment.log(
                "a device subscribed to the channel \(name), but \(Subscriptions.most) channels are watched already: "
                    + "name the channels to watch with --channel")
            return true
        case .isWatched, .isOther(isFirst: false): return false
        case .isOther(isFirst: true):
            environment.log("a device subscribed to the channel \(name), which is not watched: add it with --channel")
            return false
        }
    }

    /// Removes a counted socket.
    func leave(_ subscription: ChannelSubscription) { subscriptions.withLock { $0.leave(subscription) } }

    // MARK: Documents

    private func run() async {
        await withDiscardingTaskGroup { group in
            for await channel in wanted { group.addTask { await self.watch(channel) } }
        }
    }

    /// Polls one file until its watch ends or the task is cancelled.
    private func watch(_ channel: String) async {
        var document = DocumentWatch(newest: announcer.sequences.numbers[channel])
        let stopwatch = Stopwatch(environment.clock)
        while true {
            let begun = stopwatch.elapsed
            let (answer, isUrgent) = await poll(at: channel, unless: document.tag)
            if Task.isCancelled { return }
            let step = document.handle(answer, took: stopwatch.elapsed - begun, random: environment.random)
            if let sequence = step.announced { announce(sequence, of: channel, isUrgent: isUrgent) }
            if let report = step.report { environment.log(describe(report, of: channel)) }
            guard await rest(step, of: channel) else { return }
        }
    }

    /// The sequence at the start of the watch is not a change.
    private func announce(_ sequence: Int, of channel: String, isUrgent: Bool) {
        let isChange = announcer.sequences.numbers[channel] != nil
        announcer.update(channel, to: sequence, isUrgent: isUrgent)
        if isChange { environment.log("announced sequence \(sequence) of the channel \(channel)") }
    }

    /// Waits for the next poll. Returns false if the watch ends. A watch whose channel does not exist ends after a full
    /// interval, so that the limit of requests applies to replaced channels too.
    private func rest(_ step: DocumentWatch.WatchStep, of channel: String) async -> Bool {
        var left = step.wait
        repeat {
            let pause = step.found == .something ? left : min(left, DocumentWatch.interval)
            do { try await environment.clock.sleep(for: pause) } catch { return false }
            left -= pause
            let isDue = left <= .zero
            let review = subscriptions.withLock { $0.review(channel, found: step.found, isDue: isDue) }
            if case .ends(let next) = review {
                if let next { want.yield(next) }
                return false
            }
        } while left > .zero
        return true
    }

    /// Polls a file. Returns the result and whether the newest release is urgent.
    private func poll(
        at channel: String, unless tag: String?
    ) async -> (answer: DocumentWatch.Answer, isUrgent: Bool) {
        do {
            let fetched = try await upstream.fetcher.fetchDocument(
                try upstream.document(of: channel), maximumBytes: ChannelFormat.maximumBytes, unless: tag)
            guard let (bytes, tag) = fetched else { return (.unchanged, false) }
            do {
                let document = try ChannelSequences.document(in: bytes, of: channel)
                return (.document(sequence: document.sequence, tag: tag), document.isUrgent)
            } catch {
                return (.unreadable("\(error)", tag: tag), false)
            }
        } catch FetchError.httpStatus(let status, _, let asked) where [404, 410].contains(status) {
            return (.missing(retryAfter: asked), false)
        } catch let failure as UpdateFailure where failure.code == .manifestMalformed {
            return (.unreadable(failure.message, tag: nil), false)
        } catch {
            return (.failed("\(error)", retryAfter: (error as? FetchError)?.retryAfter), false)
        }
    }

    // MARK: Log messages

    private func describe(_ report: DocumentWatch.Report, of channel: String) -> String {
        let file = "\(upstream.url.display)channels/\(channel).json"
        return switch report {
        case .watched(let sequence, let hasTag):
            "watching \(file); sequence \(sequence)"
                + (hasTag ? "" : ". Its server sends no ETag, so each poll downloads the whole file")
        case .older(let sequence, let newest):
            "\(file) has sequence \(sequence), which is older than \(newest); it is not announced"
        case .unreadable(let reason):
            "\(file) cannot be read, so it is not announced: \(UntrustedName.display(reason, limit: 400))"
        case .missing: "\(file) does not exist. The relay polls it at least once a minute"
        case .failed(let reason):
            "\(UntrustedName.display(reason, limit: 400)) Until it responds, devices find updates by their own checks"
        }
    }
}
