import BundleFetch
import BundleCore
import BundleValues
import BundleServe
import BundleTesting
@testable import BundleShell
@testable import ClientServer
import Testing

@Suite struct CoordinatorTests {
    private static let failure = UpdateFailure(
        .configInvalid, subject: "store", "There is nothing to <launch> & \"show\".")

    /// A device with a client and a seed, booted for a session that a test may change.
    private final class Device: Sendable {
        let fixture: LoopbackFixture
        let coordinator: ShellCoordinator
        let sessions: InMemorySessionRepository
        private let bootstrapper: AppBootstrapper

        init(_ record: SessionRecord = .open, installed: String? = "1.0.0", hasSeed: Bool = true) async throws {
            fixture = try await LoopbackFixture(installed: installed, starts: false, hasSeed: hasSeed)
            coordinator = ShellCoordinator(fixture.bridge, Environment(log: { Issue.record("\($0)") }))
            sessions = InMemorySessionRepository(record)
            bootstrapper = AppBootstrapper(
                restoreSession: RestoreSession(
                    sessions, environment: Environment(now: { Timestamp(clamping: 1000) })),
                prepareLaunch: ShellLaunch(fixture.shell) { [fixture, sessions] in
                    await fixture.bridge.noteEnded(sessions, at: Timestamp(clamping: 1000))
                }, router: coordinator)
            await coordinator.start()
        }

        var host: LoopbackHost { fixture.host }

        func boot() async { await bootstrapper.start() }

        func change(_ body: @Sendable (inout SessionRecord) -> Void) async throws {
            try sessions.change(body)
            await boot()
        }

        /// Returns the document of a page load.
        func document() async throws -> String { Self.text(try await host.page(isBrowser: true).site) }

        static func text(_ site: Site) -> String {
            String(decoding: site.index.before + site.index.after, as: UTF8.self)
        }
    }

    private static func session() throws -> UserSession {
        UserSession(
            token: try AccessToken(tokenFile: Array("t".utf8)), since: Timestamp(clamping: 1), expires: nil)
    }

    private static func record(_ access: SessionRecord.Access, _ lock: SessionLock? = nil) -> SessionRecord {
        SessionRecord(access: access, lock: lock)
    }

    private static let loggedOut = record(.ended(SessionEnding(.signedOut, at: Timestamp(clamping: 1))))

    @Test func `shows no client before a state is routed`() async throws {
        let device = try await Device()
        #expect(device.coordinator.state == nil)
        #expect(try await device.document().contains("data-state=\"starting\""))
        await device.boot()
        #expect(device.coordinator.state == .client)
        #expect(try await device.document().contains("client 1.0.0"))
    }

    @Test func `shows the page of each session`() async throws {
        for (record, state, text) in [
            (SessionRecord.open, LaunchState.client, "client 1.0.0"),
            (Self.record(.session(try Self.session())), .client, "client 1.0.0"),
            (Self.loggedOut, .guests, "<title>seed</title>"),
            (Self.record(.open, .byOperator), .locked, "data-state=\"locked\""),
            (Self.record(.session(try Self.session()), .byOperator), .locked, "data-state=\"locked\""),
            (Self.record(.open, .forMaintenance), .maintenance, "data-state=\"maintenance\""),
        ] {
            let device = try await Device(record)
            await device.boot()
            #expect(device.coordinator.state == state)
            #expect(try await device.document().contains(text), "\(text)")
        }
    }

    @Test func `shows the code of a failure, and not its reason, which is for operators`()
        async throws
    {
        let device = try await Device()
        await device.coordinator.route(to: .failure(reason: Self.failure))
        let document = try await device.document()
        #expect(document.contains("data-state=\"failure\""))
        #expect(document.contains("The log of this device contains the reason (\(Self.failure.code.rawValue))."))
        #expect(!document.contains("launch&gt;") && !document.contains("<launch>"))
    }

    @Test func `shows guests without a seed that no user is signed in, and the client after a login`() async throws {
        let device = try await Device(Self.loggedOut, hasSeed: false)
        await device.boot()
        #expect(try await device.document().contains("data-state=\"signedOut\""))
        let session = try Self.session()
        try await device.change { $0.signIn(session) }
        #expect(try await device.document().contains("client 1.0.0"))
    }

    @Test func `reports a damaged seed to guests as a failure`() async throws {
        let device = try await Device(Self.loggedOut)
        try device.fixture.damageSeed()
        await device.boot()
        guard case .failure = device.coordinator.state else {
            Issue.record("\(String(describing: device.coordinator.state))")
            return
        }
        #expect(try await device.document().contains("data-state=\"failure\""))
    }

    @Test func `reports a missing client as a failure to users who need no session`() async throws {
        let device = try await Device(.open, installed: nil, hasSeed: false)
        let launch = ShellLaunch(device.fixture.shell) { false }
        guard case .failure = await launch.execute(for: .notRequired) else {
            Issue.record("nothing is there to be shown")
            return
        }
        guard case .signedOut = await launch.execute(for: .unauthenticated(.ended(.signedOut))) else {
            Issue.record("there is no seed")
            return
        }
    }

    // MARK: From one state to another

    @Test func `a locked device serves no file of a client at any path or to any page`() async throws {
        let device = try await Device()
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        let generation = device.host.generation
        _ = try await device.host.site(named: "v1.0.0")
        try await device.change { $0.lock(.byOperator) }
        #expect(device.host.generation != generation)
        for id in [nil, page.id, "made-up"] {
            #expect(Device.text(device.host.site(ofPage: id)).contains("data-state=\"locked\""))
        }
        for name in ["v1.0.0", "embedded"] { #expect(try await device.host.site(named: name) == nil) }
        #expect(try await device.host.clients() == [])
        for method in ["startupDidComplete", "reload", "checkForUpdates", "visibility"] {
            await #expect(throws: CallRefusal.self) {
                _ = try await device.host.call(method, token: page.token, body: [:])
            }
        }
        await #expect(throws: CallRefusal.self) { _ = try await device.host.events(token: page.token) }
    }

    @Test func `shows a waiting page between two states, which reloads by itself`() async throws {
        let device = try await Device()
        await device.boot()
        try await device.fixture.shell.admit(.nobody)
        let page = try await device.host.page(isBrowser: true)
        #expect(Device.text(page.site).contains("data-state=\"starting\""))
        let refusal = await #expect(throws: CallRefusal.self) { _ = try await device.host.events(token: page.token) }
        #expect(refusal?.code == "staleLaunch")
        await device.boot()
        #expect(try await device.document().contains("client 1.0.0"))
    }

    @Test func `guests receive the seed at every path and nothing else`() async throws {
        let device = try await Device(Self.record(.session(try Self.session())))
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        _ = try await device.host.site(named: "v1.0.0")
        try await device.change { $0.signOut(at: Timestamp(clamping: 2)) }
        for id in [nil, page.id] { #expect(Device.text(device.host.site(ofPage: id)).contains("seed")) }
        #expect(try await device.host.site(named: "v1.0.0") == nil)
        #expect(try await device.host.site(named: "embedded") != nil)
        #expect(try await device.host.clients() == ["embedded"])
        let guest = try await device.host.page(isBrowser: true)
        #expect(
            try await device.host.call("getCurrentVersion", token: guest.token, body: [:])["version"]
                == .string("embedded"))
    }

    @Test func `open pages reload after each change of the state, and not after other boots`() async throws {
        let device = try await Device()
        await device.boot()
        func received(_ page: Page, by change: () async throws -> Void) async throws -> [String] {
            let events = try await device.host.events(token: page.token)
            try await change()
            return await device.fixture.received(events)
        }
        let client = try await device.host.page(isBrowser: true)
        #expect(try await received(client) { await device.boot() } == [])
        #expect(try await received(client) { try await device.change { $0.lock(.byOperator) } } == ["reload"])
        let locked = try await device.host.page(isBrowser: true)
        #expect(try await received(locked) { await device.boot() } == [])
        #expect(try await received(locked) { try await device.change { $0.lock(.forMaintenance) } } == ["reload"])
        await #expect(throws: CallRefusal.self) { _ = try await device.host.events(token: locked.token) }
        let maintenance = try await device.host.page(isBrowser: true)
        #expect(try await received(maintenance) { try await device.change { $0.unlock() } } == ["reload"])
        let again = try await device.host.page(isBrowser: true)
        #expect(Device.text(again.site).contains("client 1.0.0"))
        #expect(again.token != client.token)
    }

    /// The page has no event stream, so it receives no event.
    @Test func `rejects a page of an ended session even if the same client is shown`() async throws {
        let device = try await Device(Self.record(.session(try Self.session())))
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        try await device.change { $0.forget(at: Timestamp(clamping: 2)) }
        func expectRefused() async {
            for method in ["startupDidComplete", "reload", "visibility", "heartbeat"] {
                let refusal = await #expect(throws: CallRefusal.self) {
                    _ = try await device.host.call(method, token: page.token, body: [:])
                }
                #expect(refusal?.code == "staleLaunch")
            }
            let refusal = await #expect(throws: CallRefusal.self) {
                _ = try await device.host.events(token: page.token)
            }
            #expect(refusal?.code == "staleLaunch")
        }
        await expectRefused()
        let next = try await device.host.page(isBrowser: true)
        #expect(next.id != page.id && next.token != page.token)
        _ = try await device.host.events(token: next.token)
        #expect(try await device.host.call("startupDidComplete", token: next.token, body: [:]) == [:])
        await expectRefused()
    }

    @Test func `a busy page of an ended session does not delay a change of the client`() async throws {
        let device = try await Device(Self.record(.session(try Self.session())))
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        let busy: JSONObject = ["busy": .bool(true), "page": .string("a"), "number": .integer(1)]
        _ = try await device.host.call("busy", token: page.token, body: busy)
        try await device.fixture.install("2.0.0")
        #expect(try await device.document().contains("client 1.0.0"))
        try await device.change { $0.forget(at: Timestamp(clamping: 2)) }
        #expect(try await device.document().contains("client 2.0.0"))
    }

    @Test func `a page of the shell may report its state and call nothing else`() async throws {
        let device = try await Device(Self.record(.open, .byOperator))
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        for method in ["visibility", "report"] {
            #expect(try await device.host.call(method, token: page.token, body: [:]) == [:])
        }
        for method in ["checkForUpdates", "startupDidComplete", "getCurrentVersion", "isUpdateAvailable", "reload"] {
            let refusal = await #expect(throws: CallRefusal.self) {
                _ = try await device.host.call(method, token: page.token, body: [:])
            }
            #expect(refusal?.code == "notShown")
        }
    }

    @Test func `a locked device sends no update and no error to its page`() async throws {
        let device = try await Device(Self.record(.open, .byOperator))
        await device.boot()
        let events = try await device.host.events(token: try await device.host.page(isBrowser: true).token)
        device.fixture.fail("one")
        device.host.pass(.updateAvailable(.embedded))
        #expect(await device.fixture.received(events) == [])
    }

    @Test func `keeps an error that occurs before a lock for the next page of a client`() async throws {
        let device = try await Device()
        await device.boot()
        _ = try await device.host.page(isBrowser: true)
        device.fixture.fail("one")
        try await device.change { $0.lock(.byOperator) }
        let locked = try await device.host.events(token: try await device.host.page(isBrowser: true).token)
        #expect(await device.fixture.received(locked) == [])
        try await device.change { $0.unlock() }
        let events = try await device.host.events(token: try await device.host.page(isBrowser: true).token)
        #expect(await device.fixture.received(events) == ["error networkUnavailable: one"])
    }

    @Test func `reports an error of the boot once until it changes`() async throws {
        let device = try await Device()
        let reports = AsyncStream<String>.makeStream()
        let coordinator = ShellCoordinator(
            device.fixture.bridge, Environment(log: { reports.continuation.yield($0) }))
        for message in ["one", "one", "two", "one"] {
            coordinator.report(message)
        }
        reports.continuation.finish()
        var said: [String] = []
        for await message in reports.stream { said.append(message) }
        #expect(said == ["one", "two", "one"])
    }

    // MARK: A shell that is too old

    @Test func `shows a notice above the client until the shell is new enough`() async throws {
        let device = try await Device()
        await device.boot()
        let page = try await device.host.page(isBrowser: true)
        #expect(page.notice == nil)
        let generation = device.host.generation
        let minimum = try SemanticVersion(parsing: "3.0.0-rc.1")
        await device.coordinator.route(to: .updateRequired(minimum: minimum))
        let noticed = try await device.host.page(isBrowser: true)
        let script = String(decoding: try #require(noticed.notice).script, as: UTF8.self)
        #expect(script.contains("3.0.0-rc.1"))
        #expect(!script.contains("</"))
        #expect(Device.text(noticed.site).contains("client 1.0.0"))
        // The client continues: its launch and its page stay.
        #expect(noticed.token == page.token)
        #expect(device.host.generation == generation)
        await device.coordinator.route(to: .client)
        #expect(try await device.host.page(isBrowser: true).notice == nil)
    }
}
