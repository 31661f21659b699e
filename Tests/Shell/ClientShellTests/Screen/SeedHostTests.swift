import BundleCore
import BundleTesting
import BundleValues
import Glibc
import MeteorSource
import MeteorTesting
@testable import ClientShell
import Synchronization
import Testing

struct SeedHostTests {
    private let folder: TemporaryFolder
    private let host: SeedHost
    private let said = Lines()

    /// The logged messages.
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    init() throws {
        folder = try TemporaryFolder()
        var device = Launcher.LaunchDevice(
            store: folder.file("store"), shell: try SemanticVersion(parsing: "1.0.0"), seed: folder.file("seed"),
            verifies: false)
        device.layout = MeteorBundles(platform: .android)
        let reason = UpdateFailure(.permissionDenied, subject: "store", "Not allowed.")
        host = try SeedHost(
            LoopbackBridge(), of: device, because: reason,
            Environment(log: { [said] line in said.all.withLock { $0.append(line) } }))
    }

    private func write(_ text: String, to name: String) throws {
        _ = try folder.writeTree([name: Array(text.utf8)], to: "seed")
    }

    private var isReady: Bool { host.prepare() == nil }

    @Test func `shows a seed that exists at the start at once`() throws {
        try write("<title>seed</title>", to: "index.html")
        #expect(isReady)
        #expect(said.all.withLock(\.count) == 1)
    }

    @Test func `accepts a late seed after five identical scans`() throws {
        #expect(!isReady)
        try write("<title>", to: "index.html")
        for _ in 1...4 { #expect(!isReady) }
        for (name, text) in [("index.html", "<title>seed</title>"), ("a.js", "1"), ("a.js", "12")] {
            try write(text, to: name)
            for _ in 1...4 { #expect(!isReady, "\(name)") }
        }
        #expect(host.seed == nil && said.all.withLock(\.isEmpty))
        #expect(isReady)
        #expect(host.seed == .embedded)
        #expect(said.all.withLock(\.count) == 1)
    }

    /// Creates a late Meteor seed without a file that its manifest lists. Returns the path of that file.
    private func lateSeedLackingFile() throws -> (here: String, there: String) {
        #expect(!isReady)
        let fixtures = try CordovaFixtures(in: folder.file("fixtures"))
        let (here, there) = (folder.file("seed/app/some-file"), folder.file("some-file"))
        try #require(rename(fixtures.seed, folder.file("seed")) == 0 && rename(here, there) == 0)
        return (here, there)
    }

    @Test func `accepts a late seed with a missing file after a longer time without changes`() throws {
        _ = try lateSeedLackingFile()
        for _ in 1..<40 { #expect(!isReady) }
        #expect(isReady)
    }

    @Test func `shows a late seed with its last file`() throws {
        let (here, there) = try lateSeedLackingFile()
        for _ in 1...10 { #expect(!isReady) }
        try #require(rename(there, here) == 0)
        for _ in 1...4 { #expect(!isReady) }
        #expect(isReady)
    }
}
