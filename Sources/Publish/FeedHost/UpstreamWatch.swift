import ArchiveSource
import BundlePush
package import BundleValues
import Synchronization

/// The feed that a relay announces, as devices reach it.
package struct Upstream: Sendable {
    let url: FetchURL
    let channels: [String]
    let fetcher: any Fetcher

    /// The feed at `url`, a folder of a web server with or without its last slash, fetched by `fetcher`. `channels` are watched and no
    /// others; without any, those that sockets ask for. Throws `FetchError.unsupportedURL` for an address that can be no feed's.
    package init(_ url: FetchURL, channels: [String], fetcher: any Fetcher) throws(FetchError) {
        if url.isFile {
            throw .unsupportedURL(
                url.display, reason: "an upstream is a web server's; `host FOLDER` announces a folder")
        }
        if url.target.contains("?") || url.hasFragment {
            throw .unsupportedURL(url.display, reason: "the address of a feed has no query and no fragment")
        }
        self.url = url.path.hasSuffix("/") ? url : try FetchURL(parsing: url.description + "/")
        self.channels = channels
        self.fetcher = fetcher
    }

    func document(of channel: String) throws -> FetchURL {
        try url.resolve(relative: "channels/\(ChannelFileName.file(of: channel))")
    }
}

/// Looks at the documents of an upstream once a second, and tells an `Announcer` what they have. Each is looked at by itself.
final class UpstreamWatch: ChannelWatch {
    private let upstream: Upstream
    private let announcer: Announcer
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let say: @Sendable (String) -> Void
    private let subscriptions: Mutex<Subscriptions>
    private let wanted: AsyncStream<String>
    private let want: AsyncStream<String>.Continuation
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// One that has not begun. `random` draws from a range; `say` hears sentences for people.
    init(
        _ upstream: Upstream, _ announcer: Announcer, clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        say: @escaping @Sendable (String) -> Void
    ) {
        self.upstream = upstream
        self.announcer = announcer
        self.clock = clock
        self.random = random
        self.say = say
        (wanted, want) = AsyncStream.makeStream()
        let told = Subscriptions(to: upstream.channels)
        for channel in told.channels { want.yield(channel) }
        subscriptions = Mutex(told)
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

    /// A socket is there; whether `leave` is to be called when it is gone.
    func enter(_ subscription: ChannelSubscription) -> Bool {
        let name = subscription.channel ?? ChannelFileName.standard
        switch subscriptions.withLock({ $0.enter(subscription) }) {
        case .begins:
            want.yield(name)
            return true
        case .counts, .isOneTooMany(isFirst: false): return true
        case .isOneTooMany(isFirst: true):
            say(
                "a device asks for the channel \(name), and \(Subscriptions.most) are watched already, so it waits for its turn: "
                    + "name those that count with --channel")
            return true
        case .isWatched, .isOther(isFirst: false): return false
        case .isOther(isFirst: true):
            say("a device asks for the channel \(name), which is not watched: name it with --channel, too")
            return false
        }
    }

    /// A socket that counts is gone.
    func leave(_ subscription: ChannelSubscription) { subscriptions.withLock { $0.leave(subscription) } }

    // MARK: Documents

    private func run() async {
        await withDiscardingTaskGroup { group in
            for await channel in wanted { group.addTask { await self.watch(channel) } }
        }
    }

    /// Looks at one document until nobody wants to hear of it, or the task is cancelled.
    private func watch(_ channel: String) async {
        var document = DocumentWatch(newest: announcer.sequences.numbers[channel])
        let reading = clock.reading()
        while true {
            let begun = reading()
            let (answer, isUrgent) = await look(at: channel, unless: document.tag)
            if Task.isCancelled { return }
            let step = document.take(answer, took: reading() - begun, random)
            if let sequence = step.announced { announce(sequence, of: channel, isUrgent) }
            if let report = step.report { say(describe(report, channel)) }
            guard await rest(step, channel) else { return }
        }
    }

    /// What there was when the watch began is no change.
    private func announce(_ sequence: Int, of channel: String, _ isUrgent: Bool) {
        let isChange = announcer.sequences.numbers[channel] != nil
        announcer.update(channel, to: sequence, isUrgent: isUrgent)
        if isChange { say("announced sequence \(sequence) of the channel \(channel)") }
    }

    /// Waits for the next look; false where the watch ends. One that has found nothing gives its place away within a look's interval,
    /// and no sooner, so that no place makes more looks than one that has found something.
    private func rest(_ step: DocumentWatch.Step, _ channel: String) async -> Bool {
        var left = step.wait
        repeat {
            let pause = step.found == .something ? left : min(left, DocumentWatch.interval)
            do { try await clock.sleep(for: pause) } catch { return false }
            left -= pause
            let isDue = left <= .zero
            let review = subscriptions.withLock { $0.review(channel, step.found, isDue: isDue) }
            if case .ends(let next) = review {
                if let next { want.yield(next) }
                return false
            }
        } while left > .zero
        return true
    }

    /// What is there, and whether its newest release is urgent.
    private func look(
        at channel: String, unless tag: String?
    ) async -> (answer: DocumentWatch.Answer, isUrgent: Bool) {
        do {
            let fetched = try await upstream.fetcher.fetchBytes(
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
        } catch {
            return (.failed("\(error)", retryAfter: (error as? FetchError)?.retryAfter), false)
        }
    }

    // MARK: Words

    private func describe(_ report: DocumentWatch.Report, _ channel: String) -> String {
        let place = "\(upstream.url.display)channels/\(channel).json"
        return switch report {
        case .watched(let sequence, let hasTag):
            "watching \(place); sequence \(sequence)"
                + (hasTag ? "" : ". Its server sends no ETag, so each look brings all of it")
        case .older(let sequence, let newest):
            "\(place) has sequence \(sequence) after \(newest): that is an older copy, and nobody is told of it"
        case .unreadable(let reason):
            "\(place) cannot be read, so nobody is told of it: \(UntrustedName.display(reason, limit: 400))"
        case .missing: "\(place) is not there. It is looked for again, at least once a minute"
        case .failed(let reason):
            "\(UntrustedName.display(reason, limit: 400)) Devices find updates by checking meanwhile"
        }
    }
}
