@testable import BundleValues

/// The counts of a simulation.
struct Tally {
    /// Devices that started the bad release.
    var ranBad = 0
    /// Devices on which its start failed.
    var failed = 0
    var spoilt = 0
    /// The times at which devices first confirmed a start of the target release.
    var reached: [UInt32] = []
    /// Devices that never install it because of their clock, or for another reason.
    var shutOut = 0
    var missed = 0
    /// Devices that run the bad release at the end, and the part of them with a wrong clock.
    var endsOnBad = 0
    var shutOutOnBad = 0
    var followedUntil = 0
    /// The number of evaluated situations.
    var evaluated = 0
    var operators: Operators?
    var wire: Wire?
    /// The numbers of devices that run each staged release, every `Simulation.sample` seconds.
    private(set) var samples: [[Int]] = []

    mutating func sample(_ running: [Int]) { samples.append(running) }

    func json(_ scenario: Scenario) throws -> JSONValue {
        guard let operators, let wire else { throw SimulationError("the simulation did not run") }
        let end = min(max(operators.end ?? followedUntil, operators.lastChange) + 3600, followedUntil)
        var object: JSONObject = [
            "failing": .integer(scenario.failing), "guarded": .bool(scenario.isGuarded),
            "target": .integer(operators.target), "ranBad": .integer(scenario.failing == 0 ? 0 : ranBad),
            "failed": .integer(failed), "endsOnBad": .integer(endsOnBad),
            "shutOutOnBad": .integer(shutOutOnBad), "reached": .integer(reached.count),
            "shutOut": .integer(shutOut), "missed": .integer(missed), "spoilt": .integer(spoilt),
            "situations": .integer(evaluated), "countedUntil": .integer(end), "followedUntil": .integer(followedUntil),
            "mostOnBad": .integer(scenario.failing == 0 ? 0 : samples.map { $0[0] }.max() ?? 0),
            "repeatedBytes": .integer(wire.repeated),
        ]
        object["published"] = .array(operators.published.map { $0.map(JSONValue.integer) ?? .null })
        object["times"] = .object(times)
        object["events"] = .array(
            operators.events.map { .object(["at": .integer($0.at), "what": .string($0.what)]) })
        object["routes"] = .object(routes(wire))
        object["load"] = .object(load(wire, until: end))
        object["samples"] = .array(samples.map { .array($0.map(JSONValue.integer)) })
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

    private func routes(_ wire: Wire) -> JSONObject {
        var routes: JSONObject = [:]
        for route in Wire.Route.allCases {
            let count = wire.counts[route.rawValue]
            routes["\(route)"] = .object([
                "requests": .integer(count.requests), "bytes": .integer(count.bytes),
                "originRequests": .integer(count.originRequests), "originBytes": .integer(count.originBytes),
            ])
        }
        return routes
    }

    /// Returns requests per second before the release, their maximum, and the requests in each sample interval.
    private func load(_ wire: Wire, until end: Int) -> JSONObject {
        let before = wire.requests[Operators.releaseAt / 2..<Operators.releaseAt]
        let originBefore = wire.originRequests[Operators.releaseAt / 2..<Operators.releaseAt]
        func sum(_ counts: ArraySlice<UInt32>) -> Int { counts.reduce(0) { $0 + Int($1) } }
        func series(_ counts: [UInt32]) -> JSONValue {
            .array(
                stride(from: 0, to: end, by: Simulation.sample).map {
                    .integer(sum(counts[$0..<min($0 + Simulation.sample, end)]))
                })
        }
        return [
            "before": .integer(sum(before)), "originBefore": .integer(sum(originBefore)),
            "secondsBefore": .integer(before.count),
            "most": .integer(Int(wire.requests[Operators.releaseAt..<end].max() ?? 0)),
            "originMost": .integer(Int(wire.originRequests[Operators.releaseAt..<end].max() ?? 0)),
            "requests": series(wire.requests), "originRequests": series(wire.originRequests),
        ]
    }
}
