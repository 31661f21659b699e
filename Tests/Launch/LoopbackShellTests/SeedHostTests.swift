import BundleCore
import BundleTesting
import BundleValues
import ShellBoot
import Synchronization
import Testing

@testable import LoopbackShell

struct SeedHostTests {
    private let folder: TemporaryFolder
    private let host: SeedHost
    private let said = Lines()

    /// What was said.
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    init() throws {
        folder = try TemporaryFolder()
        let device = Launcher.Device(
            store: folder.file("store"), shell: try SemanticVersion(parsing: "1.0.0"), seed: folder.file("seed"),
            verifies: false)
        let reason = UpdateFailure(.permissionDenied, subject: "store", "Not allowed.")
        host = try SeedHost(
            LoopbackBridge(), because: reason, say: { [said] line in said.all.withLock { $0.append(line) } },
            launch: { try Launcher.launch(device, withoutStore: reason, warn: $0) })
    }

    private func write(_ text: String, to name: String) throws {
        _ = try folder.writeTree([name: Array(text.utf8)], to: "seed")
    }

    private var isReady: Bool { host.prepare() == .ready }

    @Test func `a seed that was there from the beginning is shown at once`() throws {
        try write("<title>seed</title>", to: "index.html")
        #expect(isReady)
        #expect(said.all.withLock(\.count) == 1)
    }

    @Test func `a seed that comes late is shown when it has been the same five times`() throws {
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
}
