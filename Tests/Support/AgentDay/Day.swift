import BundleCore
import BundleValues
import BundleDisk
import BundleFetch
import BundleTesting
import BundleShell
import Synchronization

/// Simulates the agent for a day. The clock jumps to the next event when all tasks sleep.
actor Day {
    static let interval = Duration.seconds(900)
    private static let storeInterval = Duration.seconds(20)
    /// The largest number of versions with a retention of three, including those on trial, blocked or kept as a fallback.
    static let mostVersions = 5
    /// The largest size of one version and the rest of the store: the client has 68 KB in five files and two folders.
    static let versionBytes = 192 << 10
    static let versionFiles = 24
    static let storeBytes = 128 << 10
    static let storeFiles = 24
    /// The timeout in real time. No step takes this long.
    private static let patience = Duration.seconds(60)

    /// The simulation does not continue.
    struct Stuck: Error, CustomStringConvertible {
        let description: String
    }

    private let folder: TemporaryFolder
    private let hours: Int
    private let tells: Bool
    private let start: Timestamp
    private let clock = ManualClock()
    private let page = Page()
    private let inbox = Inbox()
    private let publisher: Publisher
    private let server: FeedServer
    private let shell: ClientShell

    private var agenda: Agenda
    private var tally = Tally()
    /// The time of the next check as reported by the shell.
    private var due = Duration.zero
    /// The time before which a busy server asked not to be checked.
    private var quietUntil = Duration.zero
    private var lastCheck = Duration.zero
    /// The longest gap that can follow the last check.
    private var longestGap: Duration
    /// The launch whose start the shell watches, and the end of its timeout. The shell watches every client but the seed.
    private var watched: (name: ClientName, end: Duration)?
    /// The number of page loads that the shell has requested or is about to request.
    private var loadsOwed = 0
    private var shown = ClientName.embedded
    /// The release that only an expired channel file offers.
    private var withheld: SemanticVersion?
    private var isJudged = true

    private var store: String { folder.file("store") }
    private var now: Duration { clock.now.sinceStart }
    private var time: Timestamp { Self.time(start, clock) }

    private static func time(_ start: Timestamp, _ clock: ManualClock) -> Timestamp {
        Timestamp(clamping: start.secondsSinceEpoch + Int(clock.now.sinceStart.components.seconds))
    }

    /// `tells` prints the messages of the shell.
    init(hours: Int, seed: UInt64, tells: Bool) throws {
        self.hours = hours
        self.tells = tells
        folder = try TemporaryFolder()
        start = .now
        agenda = Agenda(length: .seconds(hours * 3600), seed: seed)
        longestGap = Self.interval * 4
        try folder.writeTree(["index.html": Array(Publisher.title("\(ClientName.embedded)").utf8)], to: "seed")
        publisher = try Publisher(in: folder, at: start)
        server = try FeedServer(feed: publisher.feed)
        shell = try Self.shell(
            folder, server, trust: publisher.trust, page, inbox, clock,
            now: { [start, clock] in Self.time(start, clock) },
            seed: seed)
    }

    /// Creates the shell of a device with a separate clock.
    private static func shell(
        _ folder: TemporaryFolder, _ server: FeedServer, trust: String, _ page: Page, _ inbox: Inbox,
        _ clock: ManualClock, now: @escaping @Sendable () -> Timestamp, seed: UInt64
    ) throws -> ClientShell {
        let version = try SemanticVersion(parsing: "1.0.0")
        var configuration = ShellConfiguration(
            device: .init(store: folder.file("store"), shell: version, seed: folder.file("seed"), verifies: false))
        configuration.polling = .init(PollPace(every: interval), yields: true)
        configuration.storeInterval = storeInterval
        var options = FetchOptions(userAgent: "AgentDay")
        options.stallTimeout = .seconds(1)
        let generator = Mutex(SeededGenerator(seed: seed ^ 0xDA7))
        let environment = Environment(
            now: now, clock: clock,
            random: { range in generator.withLock { Double.random(in: range, using: &$0) } },
            log: { inbox.warn($0) })
        var container = DeviceContainer(configuration, network: options, environment: environment)
        var feed = DeviceContainer.Feed(try server.source(), trust: trust, appId: Publisher.appId)
        feed.deviceId = "agent-day"
        container.feed = feed
        let sources = try container.sources()
        return try container.shell(
            bridge: page,
            update: {
                var results: [CheckResult] = []
                for source in sources { results.append(await source.follow()) }
                let result = CheckResult(joining: results)
                for version in result.installed.compactMap(\.name.version) { inbox.add(installed: version) }
                return result
            })
    }

    // MARK: Simulation

    /// Simulates the day. Returns the counts and failures.
    func live() async -> Tally {
        let listening = Task { [shell, inbox] in for await event in shell.events { inbox.add(event) } }
        let running = Task { [self] in
            try await shell.start()
            try await load()
            await shell.run()
        }
        do {
            try await begin()
            try await liveThrough()
        } catch {
            wrong("the day ended: \(error)")
        }
        running.cancel()
        if case .failure(let error) = await running.result { wrong("the shell ended: \(error)") }
        listening.cancel()
        judgeTheWhole()
        return tally
    }

    /// The first check is at the time that the shell reports, by its second sleeper.
    private func begin() async throws {
        try await wait { self.clock.wakeTimes.count == 2 }
        due = clock.wakeTimes.last ?? .zero
    }

    private func liveThrough() async throws {
        let end = Duration.seconds(hours * 3600)
        try await settle()
        while now < end {
            let next = [clock.wakeTimes.first, agenda.next, end].compactMap(\.self).min() ?? end
            clock.advance(by: next - now)
            try await settle()
            while let event = agenda.take(at: now) {
                try await perform(event)
                try await settle()
            }
        }
    }

    /// Returns when the shell has processed everything that is due.
    private func settle() async throws {
        try await wait {
            try self.hearAll()
            if self.page.isToLoad() {
                self.loadsOwed -= 1
                try await self.load()
            }
            return self.isCalm
        }
        if !isJudged { try await judge() }
    }

    private func wait(until isDone: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + Self.patience
        while try await !isDone() {
            if ContinuousClock.now > end {
                throw Stuck(description: "nothing moves: sleepers \(clock.wakeTimes), the next check \(due)")
            }
            try await Task.sleep(for: .microseconds(200))
        }
    }

    /// Whether nothing is due and all tasks sleep: the watcher of the store, the poller, and the watchdog of a start.
    private var isCalm: Bool {
        now < due && loadsOwed == 0 && (watched.map { now < $0.end } ?? true)
            && clock.wakeTimes.count == (watched == nil ? 2 : 3)
    }

    private func wrong(_ text: String) { tally.complain(text, at: now) }

    // MARK: Publisher and network

    private func perform(_ event: Agenda.Event) async throws {
        isJudged = false
        switch event {
        case .release: try await release()
        case .recall: try await recall()
        case .expiry: try expire()
        case .renewal:
            try publisher.renew(at: time)
            withheld = nil
        case .outage(let outage): begin(outage)
        case .recovery: server.set(nil)
        case .startUp(let token): try await startUp(token)
        case .reload: try await reload()
        case .lookAround: try lookAround()
        }
    }

    private func release() async throws {
        let isBroken = publisher.count % 5 == 1
        // The fix of a broken release comes late, so that devices have tried the release twice.
        agenda.add(.release, at: now + .seconds(isBroken ? agenda.minutes(60...80) : agenda.minutes(25...45)))
        if withheld != nil { return }
        _ = try publisher.publish(at: time, isBroken: isBroken)
        tally.releases += 1
        if agenda.once(in: 3) {
            tally.news += 1
            await hearNews()
        }
    }

    private func hearNews() async {
        await shell.checkSoon()
        if now >= quietUntil { due = now }
    }

    private func begin(_ outage: Outage) {
        let isFree = withheld == nil
        if isFree {
            tally.outages[outage.name, default: 0] += 1
            server.set(outage)
            agenda.add(.recovery, at: now + .seconds(agenda.minutes(10...60)))
        }
        agenda.add(.outage(isFree ? agenda.nextOutage() : outage), at: now + .seconds(agenda.minutes(100...220)))
    }

    /// Recalls the running version.
    private func recall() async throws {
        guard watched == nil, server.outage == nil, withheld == nil, let version = shown.version?.semantic else {
            agenda.add(.recall, at: now + .seconds(300))
            return
        }
        try publisher.recall(version, at: time)
        if agenda.once(in: 2) { await hearNews() }
    }

    /// Publishes the last channel file before a long weekend. It has expired when the device sees it with its release.
    private func expire() throws {
        guard watched == nil, server.outage == nil, due - now > .seconds(120) else {
            agenda.add(.expiry, at: now + .seconds(60))
            return
        }
        withheld = try publisher.publish(at: time, for: .seconds(60), isBroken: false)
        tally.releases += 1
        agenda.add(.renewal, at: now + agenda.expiredFor)
    }

    private func lookAround() throws {
        let hour = Int(now.components.seconds / 3600)
        let isShown = hour == 1 || hour % max(1, hours / 4) == 0 || hour == hours
        tally.take(try Reading(store: store), hour: hour, isShown: isShown)
    }

    // MARK: The page

    private func load() async throws {
        let launched = try await shell.pageWillLoad()
        shown = launched.name
        watched = launched.name == .embedded ? nil : (launched.name, now + StartupTimeout.standard.duration)
        isJudged = false
        let version = launched.name.version?.semantic
        let title = Publisher.title(version?.description ?? "\(ClientName.embedded)")
        // The shell adds scripts to the page.
        if try !page.contents().contains(title) { wrong("the page of \(launched.name) is not its own") }
        if let version, !publisher.broken.contains(version) {
            agenda.add(.startUp(launched.token), at: now + .seconds(agenda.seconds(1...8)))
        }
    }

    private func startUp(_ token: LaunchToken) async throws {
        guard await shell.isCurrent(token) else { return }
        try await shell.startupDidComplete(token)
        await shell.removed()
        watched = nil
    }

    private func reload() async throws {
        do {
            try await shell.reload()
            loadsOwed += 1
        } catch let error as ShellError where error.code == ShellError.noPendingVersion.code {
            // The version was recalled in the meantime, or is shown already.
        }
    }

    // MARK: Events of the shell

    private func hearAll() throws {
        let news = inbox.take()
        for line in news.warnings { wrong("a warning: \(line)") }
        for version in news.installed {
            tally.installed += 1
            if let withheld, version == .archive(withheld) { wrong("\(version) is installed by an expired document") }
        }
        for event in news.events { hear(event) }
        if !news.events.isEmpty { isJudged = false }
    }

    private func hear(_ event: ShellEvent) {
        if tells { print("\(Tally.time(now)) \(event)") }
        switch event {
        case .updateAvailable: agenda.add(.reload, at: now + .seconds(agenda.seconds(0...300)))
        case .failed(let failure): tally.failures[failure.code, default: 0] += 1
        case .checked(let failure, let next): checked(failure, next)
        case .launched: tally.launches += 1
        case .confirmed: tally.confirmed += 1
        case .downloading, .installed, .complained: break
        case .unconfirmed, .blank: wrong("\(event)")
        case .rolledBack(let name, _, let failure):
            loadsOwed += 1
            if watched?.name == name { watched = nil }
            rolledBack(name.version?.semantic, failure.code)
        }
    }

    private func checked(_ failure: UpdateFailure?, _ next: Duration?) {
        tally.checks += 1
        let gap = now - lastCheck
        tally.longestGap = max(tally.longestGap, gap)
        if gap > longestGap { wrong("no check for \(Tally.time(gap)), more than \(Tally.time(longestGap))") }
        lastCheck = now
        longestGap = Self.interval * 4
        quietUntil = .zero
        if failure?.code == .httpStatus, case .busy = server.outage {
            quietUntil = next.map { now + $0 } ?? .zero
        }
        if let reason = failure, reason.code != expectedFailure, reason.code != .versionBlocked || !isNewestBlocked {
            wrong("a check failed: \(reason.message)")
        }
        if failure == nil { requireNewest() }
        guard let next else { return wrong("no further check is planned") }
        due = now + next
    }

    /// The expected failure of a check, if any.
    private var expectedFailure: FailureCode? { server.outage?.code ?? (withheld == nil ? nil : .expired) }

    /// Whether the newest release is the one that failed twice.
    private var isNewestBlocked: Bool {
        guard let newest = publisher.newest, let ledger = try? Inventory.read(at: store).ledger else { return false }
        return ledger.block(on: .archive(newest)) != nil
    }

    /// Requires the newest release after a successful check.
    private func requireNewest() {
        if let expectedFailure { return wrong("a check should have failed: \(expectedFailure)") }
        guard let newest = publisher.newest, let inventory = try? Inventory.read(at: store) else { return }
        let version = ClientVersion.archive(newest)
        if inventory.bundle(version) == nil, inventory.ledger.block(on: version) == nil {
            wrong("a check was good and has not brought \(version)")
        }
    }

    private func rolledBack(_ version: SemanticVersion?, _ code: FailureCode) {
        guard let version else { return wrong("the seed was rolled back") }
        switch code {
        case .healthFailed:
            tally.rolledBack += 1
            if !publisher.broken.contains(version) { wrong("\(version) was rolled back, and works") }
        case .versionBlocked:
            tally.recalled += 1
            if !publisher.recalled.contains(version) { wrong("\(version) was left, and was not recalled") }
        default: wrong("\(version) was rolled back for \(code)")
        }
    }

    // MARK: Checks

    /// Requires that the shown client may run and that no files are left over.
    private func judge() async throws {
        isJudged = true
        guard try Inventory.exists(at: store) else { return }
        let inventory = try Inventory.read(at: store)
        let current = await shell.currentVersion
        if current != shown { wrong("\(shown) was loaded, and \(current.map { "\($0)" } ?? "nothing") is current") }
        if let version = shown.version {
            if inventory.bundle(version) == nil { wrong("\(version) is shown, and is not in the store") }
            if let reason = inventory.ledger.recall(of: version) { wrong("\(version) is shown, and \(reason)") }
            if withheld.map({ version == .archive($0) }) == true { wrong("\(version) is shown by an expired document") }
            if version.semantic.map(publisher.broken.contains) == true, watched == nil {
                wrong("\(version) is broken and shown without a watch")
            }
        }
        tally.blocked = inventory.ledger.blocks.count
        tally.mostVersions = max(tally.mostVersions, inventory.bundles.count)
        if inventory.bundles.count > Self.mostVersions { wrong("the store has \(inventory.bundles.count) versions") }
        for name in ["staging", "downloads"] {
            let left = try Directory.open(store).directory(name).list()
            if !left.isEmpty { wrong("\(name) has \(left.joined(separator: ", "))") }
        }
    }

    /// Requires that the day contained the events that it tests.
    private func judgeTheWhole() {
        var wanted = [("rollback", tally.rolledBack), ("recall", tally.recalled), ("expiry", tally.expired)]
        if hours >= 12 {
            wanted += [("block", tally.blocked), ("news", tally.news), ("503", tally.failures[.httpStatus] ?? 0)]
            wanted.append(("broken connection", tally.failures[.networkUnavailable] ?? 0))
        }
        for (what, count) in wanted where count == 0 { wrong("there was no \(what)") }
    }
}
