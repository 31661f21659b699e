import BundleTesting
import Glibc
import Testing

/// A running `clientctl serve` that checks for hours only when it hears of something.
final class Kept {
    let program: Program
    private let store: String

    /// Starts it on a store that may be empty.
    init(store: String, seed: String, _ more: [String], environment: [String: String] = [:]) throws {
        self.store = store
        program = try Clientctl.start(
            [
                "serve", "--store", store, "--shell-version", "1.5.0", "--seed", seed, "--port", "0",
                "--check-interval", "24h",
            ] + more, environment: environment)
    }

    /// What it said to people so far.
    func errors() throws -> String { try program.printed().errors }

    /// How many lines of it have this text in them.
    func count(_ text: String) throws -> Int { try errors().split(separator: "\n").count { $0.contains(text) } }

    /// The sequences of the channel that it was told of, in order. One is told of again where a check did not lead to it.
    func announced() throws -> [Int] {
        try errors().matches(of: /announces sequence ([0-9]+) of the channel stable/).compactMap { Int($0.output.1) }
    }

    /// Waits until it has said this that often.
    func wait(until text: String, times: Int = 1) throws {
        try wait("\"\(text)\" is not said") { try count(text) >= times }
    }

    /// Waits until it has said its address.
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
