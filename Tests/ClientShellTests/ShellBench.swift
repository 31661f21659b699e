import BundleCore
import BundleTesting
import ClientShell
import Glibc
import Synchronization

/// A device with a shell whose time a test moves.
final class ShellBench: Sendable {
    private let folder: TemporaryFolder
    let clock = ManualClock()
    let bridge = RecordingBridge()
    private let warnings = Mutex<[String]>([])
    private let offers = Mutex<[String]>([])
    private let fails = Mutex(false)

    var store: String { folder.file("store") }
    var warningLines: [String] { warnings.withLock { $0 } }

    init(installing versions: [String] = []) async throws {
        folder = try TemporaryFolder(under: access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")
        try folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        for version in versions { try await install(version) }
    }

    func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    func client(_ text: String) throws -> ClientVersion { .archive(try version(text)) }

    func name(_ text: String) throws -> ClientName { .installed(try client(text)) }

    /// Installs as another process would.
    func install(_ version: String, files: [String: String]? = nil) async throws {
        _ = try await Updater(
            channel: MemoryChannel(try MemoryOffer(version, files: files)),
            device: .init(store: store, shell: try self.version("1.0.0"), appId: nil, keep: 9), warn: { _ in }
        ).update()
    }

    /// The next check for updates brings `version`.
    func offer(_ version: String) { offers.withLock { $0.append(version) } }

    /// From now on checks for updates fail.
    func breakUpdates() { fails.withLock { $0 = true } }

    private func update() async throws {
        if fails.withLock({ $0 }) {
            throw UpdateFailure(.networkUnavailable, subject: "x", "No answer.")
        }
        let wanted = offers.withLock { $0 }
        for version in wanted { try await install(version) }
    }

    func shell(hasSeed: Bool = true, configure: (inout ShellConfiguration) -> Void = { _ in }) throws -> ClientShell {
        var configuration = ShellConfiguration(
            device: .init(
                store: store, shell: try version("1.0.0"), seed: hasSeed ? folder.file("seed") : nil, verifies: false))
        configure(&configuration)
        return try ClientShell(
            configuration, update: { try await self.update() }, bridge: bridge, clock: clock,
            warn: { line in self.warnings.withLock { $0.append(line) } })
    }

    func verdicts() throws -> Verdicts { try Verdicts(store: store) { _ in } }

    func ledger() throws -> Ledger { try Inventory.read(at: store).ledger }
}

/// The events of a shell, one after the other.
struct EventReader {
    private var iterator: AsyncStream<ShellEvent>.Iterator

    init(_ shell: ClientShell) { iterator = shell.events.makeAsyncIterator() }

    mutating func next() async -> ShellEvent? { await iterator.next(isolation: nil) }

    /// The next event in short.
    mutating func line() async -> String {
        switch await next() {
        case .updateAvailable(let name): "available \(name)"
        case .failed(let failure): "error \(failure.code)"
        case .launched(let name, let isTrial): "launched \(name)\(isTrial ? " on trial" : "")"
        case .confirmed(let name): "confirmed \(name)"
        case .rolledBack(let name, let other, let failure): "rolled back \(name) to \(other): \(failure.code)"
        case nil: "end"
        }
    }
}
