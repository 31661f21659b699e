package import BundleValues

/// The facts that wait to be told, and what was told before: each fact of a version is told once. A ledger has one as long as
/// the device reports.
package struct ReportQueue: Sendable, Equatable {
    /// One fact of one version.
    struct Told: Hashable, Sendable {
        let fact: DeviceReport.Fact
        let version: SemanticVersion
    }

    private static let remembered = 256

    /// Not told yet, oldest first; at most `ReportMessage.maximumReports`.
    package private(set) var waiting: [DeviceReport]
    /// Reports that were dropped, because too many waited, since the last message that arrived.
    package private(set) var dropped: Int
    /// Noted before, told or waiting; oldest first.
    private(set) var told: [Told]

    /// Nothing waits.
    package init() { self.init(waiting: [], dropped: 0, told: []) }

    init(waiting: [DeviceReport], dropped: Int, told: [Told]) {
        self.waiting = waiting
        self.dropped = dropped
        self.told = told
    }

    /// Whether `fact` of `version` was noted.
    func knows(_ fact: DeviceReport.Fact, of version: SemanticVersion) -> Bool {
        told.contains(Told(fact: fact, version: version))
    }

    /// Takes in a report, unless its fact was noted before. The oldest one goes where too many wait.
    mutating func note(_ report: DeviceReport) {
        if knows(report.fact, of: report.version) { return }
        told.append(Told(fact: report.fact, version: report.version))
        if told.count > Self.remembered { told.removeFirst() }
        waiting.append(report)
        if waiting.count > ReportMessage.maximumReports {
            waiting.removeFirst()
            dropped += 1
        }
    }

    /// A receiver has these reports, and knows of as many dropped ones.
    mutating func settle(_ ids: [String], dropped count: Int) {
        waiting.removeAll { ids.contains($0.id) }
        dropped -= min(dropped, count)
    }
}

extension ReportQueue {
    init(_ reader: MemberReader) throws {
        waiting = try reader.objects("waiting").map { reader throws(MemberReader.Refusal) in try DeviceReport(reader) }
        dropped = try reader.integer("dropped")
        told = try reader.objects("told").map { reader throws(MemberReader.Refusal) in
            guard let fact = DeviceReport.Fact(rawValue: try reader.string("fact")) else {
                throw reader.refusal("fact", "is no known word")
            }
            return Told(fact: fact, version: try reader.version("version"))
        }
        guard waiting.count <= ReportMessage.maximumReports, told.count <= Self.remembered else {
            throw reader.refusal("waiting", "has more than a queue holds")
        }
    }

    var json: JSONValue {
        .object([
            "waiting": .array(waiting.map(\.json)), "dropped": .integer(dropped),
            "told": .array(
                told.map {
                    .object(["fact": .string($0.fact.rawValue), "version": .string($0.version.description)])
                }),
        ])
    }
}
