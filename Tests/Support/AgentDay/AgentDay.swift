import ArgumentParser
import BundleSigning
import Glibc

/// `Scripts/prove/day` runs it.
@main
struct AgentDay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "AgentDay",
        abstract: "A day of a device's agent in about a minute, by a clock of its own.",
        discussion: """
            A feed with real keys, served over HTTP, and the agent with a store on the disk, in one process. All day long it polls; \
            releases come, every fifth one broken; some are pushed; the server goes away; the version that runs is recalled; the \
            channel's document expires and is signed anew. Exit 1 where something runs that must not, or something grows.
            """)

    @Argument(help: "How many hours, 2 to 168.")
    var hours = 24

    @Option(help: "Which day; the same one has the same events.")
    var seed: UInt64 = 1

    @Flag(help: "Print what the agent tells, too.")
    var events = false

    mutating func validate() throws {
        guard (2...168).contains(hours) else { throw ValidationError("\(hours) hours are no day; use 2 to 168.") }
    }

    func run() async throws {
        // libarchive reads names in the character set of the process, which is "C" initially.
        guard setlocale(LC_CTYPE, "C.UTF-8") != nil else {
            throw ValidationError("This system does not have the locale C.UTF-8.")
        }
        try OpenSSLIsolation.begin()
        let began = ContinuousClock.now
        let day = try Day(hours: hours, seed: seed, tells: events)
        let tally = await day.live()
        print("day: \(hours) h in \((ContinuousClock.now - began).components.seconds) s, seed \(seed)")
        for line in tally.lines { print(line) }
        for complaint in tally.complaints { print("day: WRONG: \(complaint)") }
        if !tally.complaints.isEmpty { throw ExitCode(1) }
    }
}
