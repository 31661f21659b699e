import BundleTesting
import BundleValues
import Glibc
import MeteorSource
import MeteorTesting
import Synchronization
import Testing

@testable import BundleCore

/// The seed of a device whose store cannot be opened.
@Suite("Launcher without a store") final class LateSeedTests {
    private let folder: TemporaryFolder
    private let device: Launcher.LaunchDevice
    private let said = Lines()
    private var launcher: Launcher?

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
        self.device = device
    }

    /// Starts a shell.
    private func start() throws {
        let refusal = UpdateFailure(.permissionDenied, subject: "store", "Not allowed.")
        launcher = try Launcher(
            device, without: refusal,
            environment: Environment(log: { [said] line in said.all.withLock { $0.append(line) } }))
    }

    private func write(_ text: String, to name: String) throws {
        _ = try folder.writeTree([name: Array(text.utf8)], to: "seed")
    }

    /// Whether the seed can be shown after another look for it.
    private var isReady: Bool {
        _ = launcher?.findSeed()
        return (try? launcher?.prepare()) != nil
    }

    @Test func `shows a seed that exists at the start at once, and says so once`() throws {
        try write("<title>seed</title>", to: "index.html")
        try start()
        let launched = try #require(try launcher?.launch())
        #expect(launched.name == .embedded && !launched.isRecorded && !launched.isTrial)
        #expect(isReady)
        #expect(said.all.withLock { $0 }.map { $0.contains("Not allowed. Until then the seed is shown") } == [true])
    }

    @Test func `throws the reason why there is no store if there is no seed`() throws {
        try start()
        #expect(throws: (any Error).self) { try launcher?.prepare() }
        try write("<title>", to: "index.html")
        _ = launcher?.findSeed()
        #expect(try #require(throws: UpdateFailure.self) { try launcher?.prepare() }.message == "Not allowed.")
    }

    @Test func `accepts a late seed after five identical scans`() throws {
        try start()
        #expect(!isReady)
        try write("<title>", to: "index.html")
        for _ in 1...4 { #expect(!isReady) }
        for (name, text) in [("index.html", "<title>seed</title>"), ("a.js", "1"), ("a.js", "12")] {
            try write(text, to: name)
            for _ in 1...4 { #expect(!isReady, "\(name)") }
        }
        let isSilent = said.all.withLock(\.isEmpty)
        #expect(isSilent)
        #expect(isReady)
        let lines = said.all.withLock(\.count)
        #expect(lines == 1)
    }

    /// Creates a late Meteor seed without a file that its manifest lists. Returns the path of that file.
    private func lateSeedLackingFile() throws -> (here: String, there: String) {
        try start()
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
