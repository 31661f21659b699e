package import BundleValues
package import BundleTransport

/// Watches a Meteor server for new versions of the client (METEOR section 7).
///
/// It keeps one socket open and reconnects after a loss. Without a socket, periodic checks find updates.
/// `DDPConversation` implements the heartbeats and protocol versions of METEOR section 7.5, so the watcher uses
/// `Reconnection` instead of `SyncClient`.
package struct VersionWatcher: Sendable {
    package struct Configuration: Sendable, Equatable {
        package var url: DDPURL
        /// The application ID that its page states. A server of another application reports no version. nil accepts any
        /// application.
        package var appId: String?
        /// The architecture of the client.
        package var architecture = "web.cordova"
        /// The longest random wait between a new version and the check, which spreads the requests of a fleet.
        package var spread = Duration.seconds(30)

        package init(url: DDPURL, appId: String? = nil) {
            self.url = url
            self.appId = appId
        }

        /// Derives the URL from the page's configuration, or otherwise from the device's server at `root`.
        ///
        /// It ignores an unencrypted socket for an https server. It also ignores a socket of this machine for another
        /// server, because such a bundle was built on a developer's machine.
        package init(server root: FetchURL, page: RuntimeConfig?) throws(FetchError) {
            let own = try DDPURL(parsing: root.description)
            let config = RuntimeConfig(rootURL: root.description, appId: page?.appId, ddpURL: page?.ddpURL)
            let stated = (try? DDPURL(config)) ?? own
            self.init(url: stated.isThisMachine && !own.isThisMachine ? own : stated, appId: page?.appId)
        }
    }

    /// The reason why a watch ended.
    package enum WatchEnd: Sendable, Equatable {
        /// The task was cancelled.
        case cancelled
        /// The server does not speak a known protocol, for this reason.
        case refused(String)
    }

    private let configuration: Configuration
    private let connector: any TransportConnector
    private let environment: Environment

    package init(
        _ configuration: Configuration, connector: any TransportConnector,
        environment: Environment = Environment()
    ) {
        self.configuration = configuration
        self.connector = connector
        self.environment = environment
    }

    /// Watches until the task is cancelled or the server turns out to speak another protocol.
    ///
    /// `running` returns the version of the running page, if known, before each check. `onNewVersion` checks for updates;
    /// it receives the reported version, one call at a time. `report` receives each change of the connection once; it is
    /// connected when the server has sent all versions. A cancellation closes the socket and cancels a running check. No
    /// task remains.
    package func run(
        running: @escaping @Sendable () async -> MeteorVersion?,
        onNewVersion: @escaping @Sendable (MeteorVersion) async -> Void,
        report: @escaping @Sendable (LinkReport) -> Void
    ) async -> WatchEnd {
        let (wanted, asking) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let state = WatchState(
            conversation: DDPConversation(
                appId: configuration.appId, architecture: configuration.architecture, environment: environment),
            trigger: CheckTrigger(
                pace: CheckTrigger.TriggerPace(spread: configuration.spread), environment: environment),
            wanted: asking, stopwatch: Stopwatch(environment.clock), report: report)
        async let checking: Void = {
            for await _ in wanted {
                await check(state, running: running, onNewVersion: onNewVersion, report: report)
            }
        }()
        let end = await connections(state)
        state.finish()
        await checking
        return end
    }

    // MARK: Connections

    private func connections(_ state: WatchState) async -> WatchEnd {
        await Reconnection(
            to: configuration.url.socket, over: connector, opening: DDPTimers.connect, clock: environment.clock
        ).run(
            begin: { state.begin() }, talk: { await talk(over: $0, state) },
            next: { ending in
                state.lose("\(ending.error)")
                guard case .reconnect(let wait)? = state.end else { return nil }
                return wait
            })
        // The watch can be cancelled after this end.
        guard case .giveUp(let reason)? = state.end else { return .cancelled }
        return .refused(reason)
    }

    private func talk(over transport: any SyncTransport, _ state: WatchState) async -> TransportError {
        state.handle(.opened)
        return await withTaskGroup(of: TransportError.self) { group in
            group.addTask { await receive(from: transport, into: state) }
            group.addTask { await send(state.texts, over: transport) }
            group.addTask { await alarms(state) }
            // The first task to end ends the connection. A cancellation ends the alarms.
            let error = await group.next() ?? .isClosed
            group.cancelAll()
            return error
        }
    }

    private func receive(from transport: any SyncTransport, into state: WatchState) async -> TransportError {
        do {
            while state.end == nil, let message = try await transport.receive() {
                switch message {
                case .text(let text): state.handle(.received(text))
                case .binary: state.handle(.receivedBinary)
                // DDP has its own pings, so no WebSocket ping was sent.
                case .pong: break
                }
            }
            return .isClosed
        } catch {
            return TransportError(error)
        }
    }

    private func send(_ texts: AsyncStream<String>, over transport: any SyncTransport) async -> TransportError {
        do {
            for await text in texts { try await transport.sendText(text) }
            return .isClosed
        } catch {
            return TransportError(error)
        }
    }

    /// Sends `woken` events until the connection ends.
    private func alarms(_ state: WatchState) async -> TransportError {
        while let left = state.untilAlarm {
            do { try await environment.clock.sleep(for: left) } catch { break }
            state.handle(.woken)
        }
        return .isClosed
    }

    // MARK: Checks

    /// Runs the due checks one after another.
    private func check(
        _ state: WatchState, running: @Sendable () async -> MeteorVersion?,
        onNewVersion: @Sendable (MeteorVersion) async -> Void, report: @Sendable (LinkReport) -> Void
    ) async {
        while let left = state.untilDue {
            do { try await environment.clock.sleep(for: left) } catch { return }
            switch state.decide(running: await running()) {
            case .check(let version): await onNewVersion(version)
            case .stop(let sentence?): report(.note(sentence))
            case .stop(nil), .rest: break
            }
        }
    }
}
