import ArchiveSource
import ArgumentParser
import BundleTransport
import BundleSockets
import BundleValues
import Glibc
import Synchronization

/// Simulates a fleet of devices that listen to one host, in one process. `Scripts/bench push` measures the host with it.
@main
struct PushFleet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Many devices that listen to one host, with the client that devices have.",
        discussion: """
            Prints a line whenever all are connected, all have heard a sequence, or all have lost the host:
            "connected N FIRST LAST", "heard SEQUENCE N FIRST LAST" and "lost N", the moments of the first and the last of them in
            milliseconds of CLOCK_MONOTONIC. Ends with its standard input.
            """)

    @Argument(help: "The host's push address.")
    var url: String

    @Argument(help: "How many.")
    var count: Int

    func run() async throws {
        let url = try SocketURL(parsing: url)
        let connector = SocketConnector(
            SocketConnector.Configuration(userAgent: "PushFleet"), over: PlainStreams())
        let fleet = Fleet(count)
        await withTaskGroup { group in
            for number in 0..<count {
                group.addTask {
                    await SyncClient(SyncClient.Configuration(url: url), connector: connector).run {
                        fleet.note($0, number)
                    }
                }
            }
            try? await onThread { while readLine() != nil {} }
            group.cancelAll()
        }
    }
}

/// The totals of the devices.
private final class Fleet: Sendable {
    private struct Group {
        var devices: Set<Int> = []
        var first = 0
    }

    private struct State {
        var connected = Group()
        var heard: [Int: Group] = [:]
    }

    private let count: Int
    private let state = Mutex(State())

    init(_ count: Int) { self.count = count }

    private static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }

    func note(_ event: SyncEvent, _ number: Int) {
        state.withLock { state in
            switch event {
            case .connected: add(number, to: &state.connected, "connected")
            case .lost:
                let wasLast = state.connected.devices.remove(number) != nil && state.connected.devices.isEmpty
                if wasLast { say("lost \(count)") }
            case .text(let text):
                guard case .release(_, let sequence, _)? = try? SyncMessage(parsing: text) else { return }
                add(number, to: &state.heard[sequence, default: Group()], "heard \(sequence)")
            case .binary: break
            }
        }
    }

    private func add(_ number: Int, to group: inout Group, _ word: String) {
        let now = Self.now
        if group.devices.isEmpty { group.first = now }
        let isNew = group.devices.insert(number).inserted
        if isNew && group.devices.count == count { say("\(word) \(count) \(group.first) \(now)") }
    }

    private func say(_ line: String) {
        // `print` would flush, which waits for a reader of the standard input.
        let bytes = Array("\(line)\n".utf8)
        _ = write(STDOUT_FILENO, bytes, bytes.count)
    }
}
