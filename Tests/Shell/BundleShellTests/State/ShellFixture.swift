import BundleCore
import BundleValues
import BundleDisk
import BundleTesting
import BundleShell
import Glibc
import Synchronization

/// A device with a shell and a manual clock.
final class ShellFixture: Sendable {
    private let folder: TemporaryFolder
    let clock = ManualClock()
    let bridge = RecordingBridge()
    private let warnings = Mutex<[String]>([])
    private let offers = Mutex<[String]>([])
    private let trouble = Mutex<(any Error)?>(nil)
    private let asked = Mutex<PollPace?>(nil)
    private let localTime = Mutex(ActivationWindows.LocalTime(day: 0, minute: 0))

    var store: String { folder.file("store") }
    var warningLines: [String] { warnings.withLock { $0 } }

    init(installing versions: [String] = []) async throws {
        folder = try TemporaryFolder()
        try folder.writeTree(["index.html": Array("<title>seed</title>".utf8)], to: "seed")
        for version in versions { try await install(version) }
    }

    func version(_ text: String) throws -> SemanticVersion { try SemanticVersion(parsing: text) }

    func client(_ text: String) throws -> ClientVersion { .archive(try version(text)) }

    func name(_ text: String) throws -> ClientName { .installed(try client(text)) }

    /// Installs a version as another process would.
    func install(_ version: String, files: [String: String]? = nil) async throws {
        _ = try await Updater(
            source: MemorySource(try MemoryOffer(version, files: files)),
            device: .init(store: store, shell: try self.version("1.0.0"), appId: nil, keep: 9),
            environment: Environment()
        ).update()
    }

    /// Has the next check for updates install `version`.
    func offer(_ version: String) { offers.withLock { $0.append(version) } }

    /// Has checks for updates fail from now on.
    func breakUpdates(_ error: any Error = UpdateFailure(.networkUnavailable, subject: "x", "No answer.")) {
        trouble.withLock { $0 = error }
    }

    /// Has checks for updates succeed from now on.
    func mendUpdates() { trouble.withLock { $0 = nil } }

    /// Has the channel request this pace from now on.
    func ask(_ pace: PollPace?) { asked.withLock { $0 = pace } }

    /// Sets the local time of the device.
    func showTime(day: Int = 0, _ hour: Int, _ minute: Int) {
        localTime.withLock { $0 = .init(day: day, minute: hour * 60 + minute) }
    }

    private func update() async throws {
        if let trouble = trouble.withLock({ $0 }) { throw trouble }
        let wanted = offers.withLock { $0 }
        for version in wanted { try await install(version) }
    }

    func shell(
        hasSeed: Bool = true, of other: (any ShellBridge)? = nil,
        configure: (inout ShellConfiguration) -> Void = { _ in }
    ) throws -> ClientShell {
        var configuration = ShellConfiguration(
            device: .init(
                store: store, shell: try version("1.0.0"), seed: hasSeed ? folder.file("seed") : nil, verifies: false))
        configure(&configuration)
        return try ClientShell(
            configuration,
            update: { await CheckResult(pace: { self.asked.withLock { $0 } }) { try await self.update() } },
            bridge: other ?? bridge,
            environment: Environment(
                clock: clock, random: { ($0.lowerBound + $0.upperBound) / 2 },
                log: { line in self.warnings.withLock { $0.append(line) } }),
            localTime: { self.localTime.withLock { $0 } })
    }

    /// Creates a shell after an earlier one has released the store.
    func nextShell(hasSeed: Bool = true) async throws -> ClientShell {
        while true {
            do {
                return try shell(hasSeed: hasSeed)
            } catch let failure as UpdateFailure where failure.code == .storeLocked {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    /// Removes the store, so that another one can be created at the same path.
    func replaceStore() throws { try Directory.open(folder.path).rename("store", to: "store.old") }

    func verdicts() throws -> Verdicts { try Verdicts(store: store, environment: Environment()) }

    func ledger() throws -> Ledger { try Inventory.read(at: store).ledger }
}

/// The events of a shell, one after the other.
struct EventReader {
    private var iterator: AsyncStream<ShellEvent>.Iterator

    init(_ shell: ClientShell) { iterator = shell.events.makeAsyncIterator() }

    /// Returns the next event other than a check or an installation.
    mutating func next() async -> ShellEvent? {
        while let event = await iterator.next(isolation: nil) {
            switch event {
            case .checked, .downloading, .installed: continue
            default: return event
            }
        }
        return nil
    }

    /// Returns the next installation.
    mutating func installation() async -> (name: ClientName, bytes: Int, size: Int)? {
        while let event = await iterator.next(isolation: nil) {
            if case .installed(let name, let bytes, let size) = event { return (name, bytes, size) }
        }
        return nil
    }

    /// Returns the failure of the next check, and when another one follows.
    mutating func check() async -> (failure: UpdateFailure?, next: Duration?)? {
        while let event = await iterator.next(isolation: nil) {
            if case .checked(let failure, let next) = event { return (failure, next) }
        }
        return nil
    }

    /// Returns the next event as a line.
    mutating func line() async -> String {
        switch await next() {
        case .updateAvailable(let name): "available \(name)"
        case .failed(let failure): "error \(failure.code)"
        case .launched(let name, let isTrial): "launched \(name)\(isTrial ? " on trial" : "")"
        case .confirmed(let name): "confirmed \(name)"
        case .complained(let name, let what): "\(name) complains: \(what)"
        case .unconfirmed(let name, let what): "unconfirmed \(name): \(what)"
        case .blank(let name, let isOver): "\(name) shows \(isOver ? "something" : "nothing")"
        case .rolledBack(let name, let other, let failure): "rolled back \(name) to \(other): \(failure.code)"
        case .checked, .downloading, .installed, nil: "end"
        }
    }
}
