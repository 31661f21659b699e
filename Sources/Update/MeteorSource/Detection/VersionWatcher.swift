package import BundleValues
package import BundlePush

/// Hears from a Meteor server at once when it has another version of the client (METEOR section 7).
///
/// It keeps one socket open, and opens it again when it is lost. Where no socket can be had, updates are found by checking
/// from time to time. What METEOR section 7.5 asks for beyond connections (signs of life in DDP, an end where the server speaks another
/// protocol) is the conversation's, so `SyncClient` does not hold them; `Reconnection` opens them for both.
package struct VersionWatcher: Sendable {
    /// What is watched.
    package struct Configuration: Sendable, Equatable {
        /// The socket.
        package var url: DDPURL
        /// The application's id, as its page states it; a server of another application states no version. Nil asks without.
        package var appId: String?
        /// The architecture of the client.
        package var architecture = "web.cordova"
        /// The longest random wait between hearing of a version and checking; spreads a fleet's requests after a deploy.
        package var spread = Duration.seconds(30)

        /// The defaults, for `url`.
        package init(url: DDPURL, appId: String? = nil) {
            self.url = url
            self.appId = appId
        }

        /// What `page` states about its server, of the device's own server at `root` where it states nothing that can be used.
        ///
        /// Not used is a socket in the clear for a server inside TLS, and, for a server elsewhere, one of this very machine: what
        /// a bundle states that was built on a developer's.
        package init(server root: FetchURL, page: RuntimeConfig?) throws(FetchError) {
            let own = try DDPURL(parsing: root.description)
            let config = RuntimeConfig(rootURL: root.description, appId: page?.appId, ddpURL: page?.ddpURL)
            let stated = (try? DDPURL(config)) ?? own
            self.init(url: stated.isThisMachine && !own.isThisMachine ? own : stated, appId: page?.appId)
        }
    }

    /// Why a watch is over.
    package enum End: Sendable, Equatable {
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
    private let report: @Sendable (LinkReport) -> Void

    /// A watch that has not begun.
    ///
    /// `running` tells the version of the page that runs, nil where it is not known; it is asked before each check.
    /// `onNewVersion` checks for updates; it gets the version that the server states, one call at a time. `report`
    /// hears of the connection, once for each change: it is one when the server has told its versions. `random` draws from a range.
    package init(
        _ configuration: Configuration, connector: any TransportConnector,
        clock: any Clock<Duration> = SuspendingClock(),
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        running: @escaping @Sendable () async -> MeteorVersion?,
        onNewVersion: @escaping @Sendable (MeteorVersion) async -> Void,
        report: @escaping @Sendable (LinkReport) -> Void
    ) {
        self.configuration = configuration
        self.connector = connector
        self.clock = clock
        self.random = random
        self.running = running
        self.onNewVersion = onNewVersion
        self.report = report
    }

    /// Watches until the task is cancelled, or the server turns out to speak another protocol.
    ///
    /// Cancelling closes the socket and cancels a check under way; nothing is left running.
    package func run() async -> End {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = WatchState(
            DDPConversation(appId: configuration.appId, architecture: configuration.architecture, random: random),
            CheckTrigger(pace: CheckTrigger.Pace(spread: configuration.spread), random: random),
            wanted: asking, reading: clock.reading(), report: report)
        async let checking: Void = checks(wanted, state)
        let end = await connections(state)
        state.finish()
        await checking
        return end
    }

    // MARK: Connections

    private func connections(_ state: WatchState) async -> End {
        await Reconnection(
            to: configuration.url.socket, over: connector, opening: DDPTimers.connect, clock: clock
        ).run(
            begin: { state.begin() }, talk: { await talk(over: $0, state) },
            next: { ending in
                state.lose("\(ending.error)")
                guard case .reconnect(let wait)? = state.end else { return nil }
                return wait
            })
        // Also where the watch was cancelled after that.
        guard case .giveUp(let reason)? = state.end else { return .cancelled }
        return .refused(reason)
    }

    private func talk(over transport: any SyncTransport, _ state: WatchState) async -> TransportError {
        state.handle(.opened)
        return await withTaskGroup(of: TransportError.self) { group in
            group.addTask { await receive(transport, state) }
            group.addTask { await send(state.texts, transport) }
            group.addTask { await alarms(state) }
            // Whoever ends first ends the connection: also the alarms, when the task is cancelled.
            let error = await group.next() ?? .isClosed
            group.cancelAll()
            return error
        }
    }

    private func receive(_ transport: any SyncTransport, _ state: WatchState) async -> TransportError {
        do {
            while state.end == nil, let message = try await transport.receive() {
                switch message {
                case .text(let text): state.handle(.received(text))
                case .binary: state.handle(.receivedBinary)
                // Signs of life are DDP's own; nobody asked for this one.
                case .pong: break
                }
            }
            return .isClosed
        } catch {
            return TransportError(error)
        }
    }

    private func send(_ texts: AsyncStream<String>, _ transport: any SyncTransport) async -> TransportError {
        do {
            for await text in texts { try await transport.sendText(text) }
            return .isClosed
        } catch {
            return TransportError(error)
        }
    }

    /// Wakes the conversation whenever it wants to be; ends with the connection.
    private func alarms(_ state: WatchState) async -> TransportError {
        while let left = state.untilAlarm {
            do { try await clock.sleep(for: left) } catch { break }
            state.handle(.woken)
        }
        return .isClosed
    }

    // MARK: Checks

    /// One check after the other.
    private func checks(_ wanted: AsyncStream<Void>, _ state: WatchState) async {
        for await _ in wanted {
            while let left = state.untilDue {
                do { try await clock.sleep(for: left) } catch { return }
                switch state.decide(running: await running()) {
                case .check(let version): await onNewVersion(version)
                case .stop(let sentence?): report(.note(sentence))
                case .stop(nil), .rest: break
                }
            }
        }
    }
}
