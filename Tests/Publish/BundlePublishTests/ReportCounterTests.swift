import BundleDisk
import BundleServe
import BundleTesting
import BundleValues
import Testing

@testable import FeedHost

struct ReportCounterTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        _ = try folder.writeTree(["releases/v1.0.0/manifest.json": []], to: "feed")
    }

    private func counter() throws -> ReportCounter {
        try ReportCounter(
            "counts.json", in: Directory.open(folder.path), of: Directory.open(folder.file("feed")))
    }

    private func message(_ id: String = DeviceReport.drawId()) throws -> [UInt8] {
        let report = DeviceReport(
            id: id, fact: .started, version: try SemanticVersion(parsing: "1.0.0"), channel: nil)
        return ReportMessage(appId: nil, reports: [report], dropped: 0).bytes
    }

    private func sum(_ metrics: String) -> String? {
        metrics.split(separator: "\n").first { $0.hasPrefix("clientctl_reports_total") }?.split(separator: " ").last
            .map(
                String.init)
    }

    @Test func `many at once are all answered, and all on the disk by then`() async throws {
        let counter = try counter()
        let messages = try (0..<300).map { _ in try message() }
        await withTaskGroup(of: ReportVerdict.self) { group in
            for message in messages { group.addTask { await counter.take(message) } }
            for await verdict in group { #expect(verdict == .taken(counted: 1)) }
        }
        #expect(await sum(counter.metrics()) == "300")
        // Another program goes on from the file.
        let next = try self.counter()
        #expect(await sum(next.metrics()) == "300")
        #expect(await next.take(messages[299]) == .taken(counted: 0))
    }

    @Test func `what the disk does not take is not answered for, and counts when it comes again`() async throws {
        let counter = try counter()
        // A folder cannot be replaced by a file.
        _ = try folder.writeTree(["in-the-way": []], to: "counts.json")
        let message = try message()
        #expect(await counter.take(message) == .failed)
        try Directory.open(folder.path).removeTree("counts.json")
        #expect(await counter.take(message) == .taken(counted: 0))
        #expect(await sum(try self.counter().metrics()) == "1")
    }
}
