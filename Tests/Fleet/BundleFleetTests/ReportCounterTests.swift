import BundleDisk
import BundleTesting
import BundleValues
import Testing

@testable import BundleFleet

@Suite("ReportCounter") struct ReportCounterTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        _ = try folder.writeTree(["releases/v1.0.0/manifest.json": []], to: "feed")
    }

    private func counter(
        _ name: String = "counts.json", clock: any Clock<Duration> = SuspendingClock()
    ) throws -> ReportCounter {
        try ReportCounter(
            name, in: Directory.open(folder.path), of: Directory.open(folder.file("feed")), clock: clock)
    }

    /// Returns a counter like that of another process, which reads the file.
    private func next() throws -> ReportCounter {
        try folder.write(try contents(ofFile: folder.file("counts.json")), to: "next.json")
        return try counter("next.json")
    }

    private func message(_ version: String = "1.0.0") throws -> [UInt8] {
        let report = DeviceReport(
            id: DeviceReport.randomID(), fact: .started, version: try SemanticVersion(parsing: version), channel: nil)
        return ReportMessage(appId: nil, reports: [report], dropped: 0).bytes
    }

    private func sum(_ metrics: String) -> String? {
        metrics.split(separator: "\n").first { $0.hasPrefix("clientctl_reports_total") }?.split(separator: " ").last
            .map(
                String.init)
    }

    @Test func `stores the reports of many messages before it responds`() async throws {
        let counter = try counter()
        let messages = try (0..<300).map { _ in try message() }
        await withTaskGroup(of: ReportVerdict.self) { group in
            for message in messages { group.addTask { await counter.take(message) } }
            for await verdict in group { #expect(verdict == .taken(counted: 1)) }
        }
        #expect(await sum(counter.metrics()) == "300")
        // One write serves all messages that arrive during the previous write.
        #expect(await counter.writes < 100)
        let next = try next()
        #expect(await sum(next.metrics()) == "300")
        #expect(await next.take(messages[299]) == .taken(counted: 0))
    }

    @Test func `fails for a message that cannot be stored and counts it when it is repeated`() async throws {
        let counter = try counter()
        // A file cannot replace a folder.
        _ = try folder.writeTree(["in-the-way": []], to: "counts.json")
        let message = try message()
        #expect(await counter.take(message) == .failed)
        try Directory.open(folder.path).removeTree("counts.json")
        #expect(await counter.take(message) == .taken(counted: 0))
        #expect(await sum(try next().metrics()) == "1")
    }

    @Test func `responds without a write to a message that changes nothing`() async throws {
        let counter = try counter()
        let empty = ReportMessage(appId: nil, reports: [], dropped: 0).bytes
        #expect(await counter.take(empty) == .taken(counted: 0))
        #expect(await counter.writes == 0)
        let message = try message()
        #expect(await counter.take(message) == .taken(counted: 1))
        for again in [message, empty, try self.message("9.9.9"), message] {
            #expect(await counter.take(again) == .taken(counted: 0))
        }
        #expect(await counter.writes == 1)
    }

    @Test func `renders metrics once a second at most and only after a change`() async throws {
        let clock = ManualClock()
        let counter = try counter(clock: clock)
        #expect(await counter.take(try message()) == .taken(counted: 1))
        for _ in 0..<20 { #expect(await sum(counter.metrics()) == "1") }
        clock.advance(by: .seconds(2))
        await withTaskGroup(of: String.self) { group in
            for _ in 0..<20 { group.addTask { await counter.metrics() } }
            for await text in group { #expect(sum(text) == "1") }
        }
        #expect(await counter.renderings == 1)
        #expect(await counter.take(try message()) == .taken(counted: 1))
        // The metrics are at most a second old.
        #expect(await sum(counter.metrics()) == "2")
        #expect(await counter.renderings == 2)
        clock.advance(by: .milliseconds(900))
        #expect(await counter.take(try message()) == .taken(counted: 1))
        #expect(await sum(counter.metrics()) == "2")
        clock.advance(by: .milliseconds(100))
        #expect(await sum(counter.metrics()) == "3")
        #expect(await counter.renderings == 3)
    }

    @Test func `counts a new version and limits the scans for unknown versions`()
        async throws
    {
        let clock = ManualClock()
        let counter = try counter(clock: clock)
        #expect(await counter.take(try message()) == .taken(counted: 1))
        #expect(await counter.scans == 1)
        clock.advance(by: .milliseconds(10))
        _ = try folder.writeTree(["manifest.json": []], to: "feed/releases/v1.0.1")
        let message = try message("1.0.1")
        async let verdict = counter.take(message)
        await clock.sleeper(until: .milliseconds(100))
        clock.advance(by: .milliseconds(90))
        #expect(await verdict == .taken(counted: 1))
        #expect(await counter.scans == 2)
        let unknown = try (0..<50).map { _ in try self.message("9.9.9") }
        let scans = Task {
            await withTaskGroup(of: ReportVerdict.self) { group in
                for message in unknown { group.addTask { await counter.take(message) } }
                for await verdict in group { #expect(verdict == .taken(counted: 0)) }
            }
            return await counter.scans
        }
        let ticker = Task {
            while !Task.isCancelled {
                await Task.yield()
                if !clock.wakeTimes.isEmpty { clock.advance(by: .milliseconds(10)) }
            }
        }
        // A scan from 100 ms on, and at most one per 100 ms. A message that arrives during a scan needs the next one.
        #expect(await scans.value <= 2 + Int(clock.now.sinceStart / .milliseconds(100)))
        #expect(await counter.scans < 20)
        ticker.cancel()
    }

    @Test func `reads the folder that replaced the feed`() async throws {
        let counter = try counter()
        _ = try folder.writeTree(["releases/v2.0.0/manifest.json": []], to: "other")
        try Directory.open(folder.path).rename("feed", to: "old")
        try Directory.open(folder.path).rename("other", to: "feed")
        #expect(await counter.take(try message("2.0.0")) == .taken(counted: 1))
        #expect(await counter.take(try message("1.0.0")) == .taken(counted: 0))
    }

    @Test func `rejects a second counter for the same file`() throws {
        let counter = try counter()
        let refusal = #expect(throws: UpdateFailure.self) { try self.counter() }
        #expect(refusal?.message.contains("Another host counts reports in \(folder.path)/counts.json") == true)
        withExtendedLifetime(counter) {}
    }
}
