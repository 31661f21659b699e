import BundleTesting
import Testing

@testable import BundleCore
import BundleValues

/// Tests launches and changes by hand on a device with clients of both sources.
struct SourceLaunchTests {
    private static func code(_ body: () throws -> Void) -> FailureCode? {
        (#expect(throws: UpdateFailure.self) { try body() })?.code
    }

    /// Creates a device with 1.0.0, which is good, 1.1.0, and the pushes a and b.
    private static func bench(_ order: String = "meteor,archive") async throws -> LaunchBench {
        let bench = try await LaunchBench(installing: "1.0.0")
        _ = try bench.launchAndConfirm()
        try await bench.install("1.1.0")
        for version in ["a", "b"] { try await bench.push(version, order: order) }
        return bench
    }

    private static func next(_ bench: LaunchBench) throws -> String {
        let ledger = try bench.ledger()
        let choice = SelectionRule.select(try Inventory.read(at: bench.store), shell: ledger.shell)
        #expect(choice?.name == ledger.pending ?? ledger.current)
        return choice?.name.description ?? "nothing"
    }

    // MARK: Launching

    @Test func `launches a push on trial and falls back to the confirmed archive`() async throws {
        let bench = try await Self.bench()
        let launched = try bench.launchPushes()
        #expect(launched.name.description == "meteor-b")
        #expect(launched.isTrial)
        #expect(launched.prepared.client.source == "meteor")
        #expect(try launched.page.contains("push b"))
        let verdicts = try bench.verdicts()
        let failure = StartFailure(.reported, detail: "white", at: .now)
        let fall = try verdicts.fail(launched.name, launched.token, failure)
        #expect(fall.next?.name.description == "v1.0.0")
        #expect(try bench.launchPushes().name.description == "v1.0.0")
        // After its retry, the push is blocked and the one before it is next.
        let again = try bench.launchPushes()
        #expect(again.name.description == "meteor-b")
        #expect(
            try verdicts.fail(again.name, again.token, failure).block?.version == .meteor(MeteorVersion(parsing: "b")))
        _ = try bench.launchPushes()
        #expect(try bench.launchPushes().name.description == "meteor-a")
    }

    @Test func `a shell without a layout skips pushes`() async throws {
        let bench = try await Self.bench()
        #expect(try bench.launch().name.description == "v1.1.0")
        #expect(
            bench.warnings.lines.contains { $0.contains("meteor-b is a Meteor bundle, which this shell cannot read") })
    }

    @Test(arguments: [("archive,meteor", "v1.1.0"), ("archive", "v1.1.0"), ("meteor", "meteor-b")])
    func `applies and stores the order of sources that a shell asks for`(order: String, name: String) async throws {
        let bench = try await Self.bench()
        #expect(try bench.launchPushes(order: order).name.description == name)
        #expect(try bench.ledger().sources.description == order)
    }

    @Test func `a shell with another seed removes the pushes and their folders`() async throws {
        let bench = try await Self.bench()
        _ = try bench.launchPushes()
        let launched = try bench.launchPushes(seed: "seed 2")
        #expect(launched.name.description == "v1.1.0")
        #expect(try bench.names("meteor").isEmpty)
        #expect(try bench.names("receipts") == ["v1.0.0.json", "v1.1.0.json"])
        #expect(try bench.ledger().offered == nil)
    }

    // MARK: By hand

    @Test func `rolls back to the last confirmed client of any source and blocks those that rank above it`()
        async throws
    {
        let bench = try await Self.bench()
        let result = try bench.verdicts().rollBack(to: nil).back()
        #expect(result.target.description == "v1.0.0")
        #expect(result.blocked.map(\.description) == ["v1.1.0", "meteor-a", "meteor-b"])
        #expect(try Self.next(bench) == "v1.0.0")
        let b: ClientVersion = try Sample.version("meteor-b")
        #expect(try bench.verdicts().unblock(b))
        #expect(try Self.next(bench) == "meteor-b")
        let failure = await #expect(throws: UpdateFailure.self) { try await bench.push("a") }
        #expect(failure?.code == .versionBlocked)
        #expect(failure?.message.hasPrefix("Skipping downloading blacklisted version: ") == true)
    }

    @Test(arguments: [
        ("meteor,archive", "meteor-a", ["meteor-b"]), ("meteor,archive", "1.1.0", ["meteor-a", "meteor-b"]),
        ("meteor,archive", "embedded", ["v1.0.0", "v1.1.0", "meteor-a", "meteor-b"]),
        ("archive,meteor", "1.0.0", ["v1.1.0"]), ("archive,meteor", "meteor-b", ["v1.0.0", "v1.1.0"]),
        ("archive,meteor", "meteor-a", ["v1.0.0", "v1.1.0", "meteor-b"]), ("meteor", "meteor-a", ["meteor-b"]),
        ("archive", "1.0.0", ["v1.1.0"]), ("meteor,archive", "meteor-b", []),
    ])
    func `a rollback blocks the clients that rank above its target`(
        order: String, target: String, blocked: [String]
    ) async throws {
        let bench = try await Self.bench(order)
        let result = try bench.verdicts().rollBack(to: try Sample.name(target)).back()
        #expect(result.target == (try Sample.name(target)))
        #expect(result.blocked.map(\.description) == blocked)
        #expect(try Self.next(bench) == result.target.description)
    }

    @Test func `rolls back through both sources to the seed`() async throws {
        let bench = try await Self.bench()
        try bench.editLedger { $0.lastKnownGood = .embedded }
        var targets: [String] = []
        for _ in 0..<4 { targets.append(try bench.verdicts().rollBack(to: nil).back().target.description) }
        #expect(targets == ["meteor-a", "v1.1.0", "v1.0.0", "embedded"])
        #expect(throws: Verdicts.RollBackResult.Unchanged.self) { try bench.verdicts().rollBack(to: nil).back() }
    }

    @Test(arguments: [("archive", "meteor-a"), ("meteor", "1.0.0")])
    func `refuses to roll back to a client of a disabled source`(order: String, target: String) async throws {
        let bench = try await Self.bench(order)
        let before = try bench.ledger()
        let failure = #expect(throws: UpdateFailure.self) {
            try bench.verdicts().rollBack(to: try Sample.name(target))
        }
        #expect(failure?.code == .usage)
        #expect(failure?.message.contains("its source is disabled") == true)
        #expect(try bench.ledger() == before)
    }

    @Test func `refuses to roll back to a push for another seed`() async throws {
        let bench = try await Self.bench()
        try await bench.push("heir", seed: "9")
        let failure = #expect(throws: UpdateFailure.self) {
            try bench.verdicts().rollBack(to: try Sample.name("meteor-heir"))
        }
        #expect(failure?.code == .usage)
        #expect(failure?.message.contains("uses files of another seed") == true)
    }
}

extension LaunchBench {
    /// Installs a push with an updater.
    func push(_ version: String, seed: String? = nil, order: String? = nil) async throws {
        let offer = try PushOffer(version, seed: try seed.map(Sample.seed))
        let sources = order.flatMap { SourceOrder($0.split(separator: ",").map(String.init)) }
        _ = try await Updater(
            source: PushSource(offer: offer),
            device: .init(store: store, shell: try Sample.version("1.0.0"), appId: nil, keep: 9, sources: sources),
            environment: Environment(log: { [warnings] in warnings.add($0) })
        ).update()
    }

    /// Starts a shell that reads Meteor bundles, launches a client, and ends the shell.
    func launchPushes(seed text: String = "seed 1", order: String? = nil) throws -> Launched {
        var device = Launcher.LaunchDevice(
            store: store, shell: try Sample.version("1.0.0"), seed: try seed(text), verifies: false,
            sources: order.flatMap { SourceOrder($0.split(separator: ",").map(String.init)) })
        device.layout = PlainLayout()
        return try launcher(device).launch()
    }
}
