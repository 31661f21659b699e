@testable import BundleValues

/// The counts of a simulation.
struct Tally {
    /// Devices that started the bad release.
    var ranBad = 0
    /// Devices on which its start failed.
    var failed = 0
    /// The times at which devices first confirmed a start of the target release.
    var reached: [UInt32] = []
    /// Devices that never install it because of their clock, or for another reason.
    var shutOut = 0
    var missed = 0
    /// Devices that run the bad release at the end, and the part of them with a wrong clock.
    var endsOnBad = 0
    var shutOutOnBad = 0
    /// The most devices that ran the bad release at one time.
    var mostOnBad = 0
    var operators: Operators?

    func json(_ scenario: Scenario) throws -> JSONValue {
        guard let operators else { throw SimulationError("the simulation did not run") }
        var object: JSONObject = [
            "failing": .integer(scenario.failing), "guarded": .bool(scenario.isGuarded),
            "target": .integer(operators.target), "ranBad": .integer(scenario.failing == 0 ? 0 : ranBad),
            "failed": .integer(failed), "endsOnBad": .integer(endsOnBad),
            "shutOutOnBad": .integer(shutOutOnBad), "reached": .integer(reached.count),
            "shutOut": .integer(shutOut), "missed": .integer(missed),
            "mostOnBad": .integer(scenario.failing == 0 ? 0 : mostOnBad),
        ]
        object["published"] = .array(operators.published.map { $0.map(JSONValue.integer) ?? .null })
        object["times"] = .object(times)
        object["events"] = .array(
            operators.events.map { .object(["at": .integer($0.at), "what": .string($0.what)]) })
        return .object(object)
    }

    /// Returns the times at which given parts of these devices had the target release.
    private var times: JSONObject {
        let sorted = reached.sorted()
        guard let last = sorted.last else { return [:] }
        var times: JSONObject = [:]
        for share in [500, 900, 990, 999] {
            times["\(share)"] = .integer(Int(sorted[min(sorted.count * share / 1000, sorted.count - 1)]))
        }
        times["last"] = .integer(Int(last))
        return times
    }
}
