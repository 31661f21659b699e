@testable import BundleFormats
@testable import ArchiveSource
@testable import BundleDisk
@testable import BundleSigning
@testable import BundleValues
import Glibc

/// The values that all scenarios share.
struct World: Sendable {
    let devices: Int
    let seed: UInt64
    /// The folder with the content of releases.
    let client: String
    /// A time after the build of this program, so that its age does not correct a clock.
    let start = Timestamp(clamping: TrustedTime.built.secondsSinceEpoch + 30 * 86_400)
    /// The rollout bucket of each device for each of `Feed.staged`.
    let buckets: [[UInt16]]

    func time(_ seconds: Int) -> Timestamp { Timestamp(clamping: start.secondsSinceEpoch + seconds) }

    /// Returns the buckets, computed by the code of devices: SHA-256 of the salt of the release and the device id.
    static func buckets(_ devices: Int, _ version: String) throws -> [UInt16] {
        try (0..<devices).map { UInt16(try ChannelRule.bucket(salt: version, deviceId: Traits.id($0))) }
    }
}

/// Runs the scenarios: FOLDER DEVICES SEED, with JSON on stdout. FOLDER must contain a folder `client`.
@main
struct Fleet {
    static func main() async {
        do {
            let words = CommandLine.arguments
            guard words.count == 4, let devices = Int(words[2]), let seed = UInt64(words[3]) else {
                throw SimulationError("usage: fleet FOLDER DEVICES SEED")
            }
            guard CharacterSet.useUTF8() else { throw SimulationError("the locale C.UTF-8 is not available") }
            try OpenSSLIsolation.begin()
            print(String(decoding: JSONWriter.bytes(of: try await run(words[1], devices, seed)), as: UTF8.self))
        } catch {
            let text = Array("fleet: \(error)\n".utf8)
            _ = write(STDERR_FILENO, text, text.count)
            exit(1)
        }
    }

    private static func run(_ folder: String, _ devices: Int, _ seed: UInt64) async throws -> JSONValue {
        let began = ContinuousClock.now
        async let second = buckets(devices, Feed.staged[1])
        let world = World(
            devices: devices, seed: seed, client: "\(folder)/client",
            buckets: [try await buckets(devices, Feed.staged[0]), try await second])
        // Two scenarios at a time limit memory. The longest starts first.
        var answers: [JSONValue?] = Scenario.all.map { _ in nil }
        try await withThrowingTaskGroup(of: (Int, JSONValue).self) { group in
            var waiting = Array(Scenario.all.indices.reversed())
            for _ in 0..<2 {
                if let number = waiting.popLast() { group.addTask { try await simulate(number, world, folder) } }
            }
            while let (number, answer) = try await group.next() {
                answers[number] = answer
                if let number = waiting.popLast() { group.addTask { try await simulate(number, world, folder) } }
            }
        }
        let use = use()
        return .object([
            "devices": .integer(devices), "seed": .integer(Int(seed)),
            "releaseAt": .integer(Operators.releaseAt),
            "milliseconds": .integer(Int((ContinuousClock.now - began) / .milliseconds(1))),
            "cpuMilliseconds": .integer(use.milliseconds), "peakBytes": .integer(use.bytes),
            "scenarios": .array(answers.compactMap(\.self)),
        ])
    }

    private static func buckets(_ devices: Int, _ version: String) async throws -> [UInt16] {
        try World.buckets(devices, version)
    }

    private static func simulate(_ number: Int, _ world: World, _ folder: String) async throws -> (Int, JSONValue) {
        let scenario = Scenario.all[number]
        let place = "\(folder)/\(number)"
        guard mkdir(place, 0o700) == 0 else { throw SimulationError("cannot create \(place)") }
        var simulation = try Simulation(scenario, world, number: number, in: place)
        return (number, try simulation.run().json(scenario))
    }

    /// Returns the CPU time in milliseconds, and the peak memory in bytes.
    private static func use() -> (milliseconds: Int, bytes: Int) {
        var usage = rusage()
        guard getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return (0, 0) }
        let spent = [usage.ru_utime, usage.ru_stime].map { $0.tv_sec * 1000 + Int($0.tv_usec) / 1000 }
        return (spent[0] + spent[1], usage.ru_maxrss * 1024)
    }
}
