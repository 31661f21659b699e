import BundleTesting
import Glibc
import Testing

/// A running `clientctl serve` with a check interval of hours, so that only notifications cause checks.
final class NotifiedServe {
    let program: Program
    private let store: String

    /// Starts `serve` on a store that may be empty.
    init(store: String, seed: String, _ more: [String], environment: [String: String] = [:]) throws {
        self.store = store
        program = try Clientctl.start(
            [
                "serve", "--store", store, "--shell-version", "1.5.0", "--seed", seed, "--port", "0",
                "--check-interval", "24h",
            ] + more, environment: environment)
    }

    /// Returns the log so far.
    func errors() throws -> String { try program.printed().errors }

    /// Returns the number of log lines that contain this text.
    func count(_ text: String) throws -> Int { try errors().split(separator: "\n").count { $0.contains(text) } }

    /// Returns the announced channel sequences in order. A sequence is announced again if a check did not reach it.
    func announced() throws -> [Int] {
        try errors().matches(of: /announces sequence ([0-9]+) of the channel stable/).compactMap { Int($0.output.1) }
    }

    /// Waits until the log contains this text that many times.
    func wait(until text: String, times: Int = 1) throws {
        try wait("\"\(text)\" is not said") { try count(text) >= times }
    }

    /// Waits until `serve` prints its address.
    func waitUntilItListens() throws {
        try wait("no address is said") { try program.printed().output.contains("http://") }
    }

    /// Waits until the store has a client of that name.
    func wait(untilInstalled name: String) throws {
        try wait("\(name) does not come") {
            try Clientctl.run(["list", "--store", store, "--json"]).strings("versions")?.contains(name) == true
        }
    }

    private func wait(_ trouble: String, _ isMet: () throws -> Bool) throws {
        let deadline = ContinuousClock.now + .seconds(90)
        while try !isMet() {
            if let ending = try program.wait(within: .milliseconds(20)) {
                throw Hosting.Ended(errors: "\(ending.status ?? -1): \(ending.errors)")
            }
            let said = try errors()
            try #require(ContinuousClock.now < deadline, "\(trouble): \(said)")
            poll(nil, 0, 50)
        }
    }
}
