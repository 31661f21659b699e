public import BundleCore

/// Hears from a Meteor server at once when it has another version of the client (METEOR section 7).
///
/// It keeps one socket open, and opens it again when it is lost. Where no socket can be had, updates are found by checking
/// from time to time.
public struct VersionWatcher: Sendable {
    /// What is watched.
    public struct Configuration: Sendable {
        /// The socket.
        public var url: DDPURL
        /// The application's id, as its page states it; a server of another application states no version. Nil asks without.
        public var appId: String?
        /// The architecture of the client.
        public var architecture = "web.cordova"
        /// The longest random wait between hearing of a version and checking; spreads a fleet's requests after a deploy.
        public var spread = Duration.seconds(30)

        /// The defaults, for `url`.
        public init(url: DDPURL, appId: String? = nil) {
            self.url = url
            self.appId = appId
        }

        /// What a page states about its server. Throws where the page names no socket.
        public init(_ config: RuntimeConfig) throws(FetchError) {
            self.init(url: try DDPURL(config), appId: config.appId)
        }
    }

    /// Why a watch is over.
    public enum End: Sendable, Equatable {
        /// Its task was cancelled.
        case cancelled
        /// The server cannot be talked with, for this reason.
        case refused(String)
    }

    private let configuration: Configuration
    private let connector: any TransportConnector
    private let clock: any Clock<Duration>
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let running: @Sendable () async -> MeteorVersion?
    private let onNewVersion: @Sendable (MeteorVersion) async -> Void
    private let log: @Sendable (String) -> Void

    /// A watch that has not begun.
    ///
    /// `running` tells the version of the page that runs, nil where it is not known; it is asked before each check.
    /// `onNewVersion` checks for updates; it gets the version that the server states, one call at a time. `log` gets
    /// sentences for people. `random` draws from a range.
    public init(
        _ configuration: Configuration, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        running: @escaping @Sendable () async -> MeteorVersion?,
        onNewVersion: @escaping @Sendable (MeteorVersion) async -> Void, log: @escaping @Sendable (String) -> Void
    ) {
        self.configuration = configuration
        self.connector = connector
        self.clock = clock
        self.random = random
        self.running = running
        self.onNewVersion = onNewVersion
        self.log = log
    }

    /// Watches until the task is cancelled, or the server turns out to speak another protocol.
    ///
    /// Cancelling closes the socket and cancels a check under way; nothing is left running.
    public func run() async -> End {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = WatchState(
            DDPConversation(appId: configuration.appId, architecture: configuration.architecture, random: random),
            CheckTrigger(pace: CheckTrigger.Pace(spread: configuration.spread), random: random),
            wanted: asking, reading: Self.reading(of: clock), log: log)
        async let checking: Void = checks(wanted, state)
        let end = await connections(state)
        state.finish()
        await checking
        return end
    }

    // MARK: Connections

    private func connections(_ state: WatchState) async -> End {
        while true {
            await connection(state)
            state.handle(.closed)
            switch state.end {
            case .reconnect(let wait)?:
                do { try await clock.sleep(for: wait) } catch { return .cancelled }
            case .giveUp(let reason)?: return .refused(reason)
            case nil: return .cancelled
            }
        }
    }

    private func connection(_ state: WatchState) async {
        let texts = state.begin()
        guard let transport = await connect(state) else { return }
        state.handle(.opened)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await receive(transport, state) }
            group.addTask { await send(texts, transport) }
            group.addTask { await alarms(state) }
            // Whoever ends first ends the connection: also the alarms, when the task is cancelled.
            await group.next()
            group.cancelAll()
            await transport.close()
        }
    }

    /// Opens the socket, in time.
    private func connect(_ state: WatchState) async -> (any MessageTransport)? {
        await withTaskGroup(of: (any MessageTransport)?.self) { group in
            group.addTask {
                do {
                    return try await connector.connect(to: configuration.url)
                } catch {
                    if !Task.isCancelled { log("no connection to \(configuration.url): \(error)") }
                    return nil
                }
            }
            group.addTask {
                await alarms(state)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            // A socket that was opened too late is nobody's.
            for await late in group { await late?.close() }
            return first
        }
    }

    private func receive(_ transport: any MessageTransport, _ state: WatchState) async {
        do {
            while state.end == nil, let text = try await transport.receive() { state.handle(.received(text)) }
        } catch {
            if !Task.isCancelled { log("the connection to \(configuration.url) broke: \(error)") }
        }
    }

    private func send(_ texts: AsyncStream<String>, _ transport: any MessageTransport) async {
        do {
            for await text in texts { try await transport.send(text) }
        } catch {
            if !Task.isCancelled { log("the connection to \(configuration.url) broke: \(error)") }
        }
    }

    /// Wakes the conversation whenever it wants to be; ends with the connection.
    private func alarms(_ state: WatchState) async {
        while let left = state.untilAlarm {
            do { try await clock.sleep(for: left) } catch { return }
            state.handle(.woken)
        }
    }

    // MARK: Checks

    /// One check after the other.
    private func checks(_ wanted: AsyncStream<Void>, _ state: WatchState) async {
        for await _ in wanted {
            while let left = state.untilDue {
                do { try await clock.sleep(for: left) } catch { return }
                switch state.decide(running: await running()) {
                case .check(let version): await onNewVersion(version)
                case .stop(let sentence?): log(sentence)
                case .stop(nil), .rest: break
                }
            }
        }
    }

    private static func reading<Ticking: Clock<Duration>>(of clock: Ticking) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}
