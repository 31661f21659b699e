package import BundleValues

/// The reports that wait to be sent, and the facts that were queued before. Each fact of a version is reported once.
package struct ReportQueue: Sendable, Equatable {
    struct ReportedFact: Hashable, Sendable {
        let fact: DeviceReport.Fact
        let version: SemanticVersion
    }

    private static let remembered = 256

    /// The reports that wait, oldest first; at most `ReportMessage.maximumReports`.
    package private(set) var waiting: [DeviceReport]
    /// The number of reports that did not fit in the queue, since the last accepted message.
    package private(set) var dropped: Int
    /// The facts that were queued before, sent or not, oldest first.
    private(set) var reported: [ReportedFact]

    package init() { self.init(waiting: [], dropped: 0, reported: []) }

    init(waiting: [DeviceReport], dropped: Int, reported: [ReportedFact]) {
        self.waiting = waiting
        self.dropped = dropped
        self.reported = reported
    }

    /// Returns whether `fact` of `version` was queued before.
    func hasReported(_ fact: DeviceReport.Fact, of version: SemanticVersion) -> Bool {
        reported.contains(ReportedFact(fact: fact, version: version))
    }

    /// Queues a report, unless its fact was queued before. Drops the oldest report if the queue is full.
    mutating func add(_ report: DeviceReport) {
        if hasReported(report.fact, of: report.version) { return }
        reported.append(ReportedFact(fact: report.fact, version: report.version))
        if reported.count > Self.remembered { reported.removeFirst() }
        waiting.append(report)
        if waiting.count > ReportMessage.maximumReports {
            waiting.removeFirst()
            dropped += 1
        }
    }

    /// Removes the reports that a receiver accepted, and `count` from the dropped ones.
    mutating func settle(_ ids: [String], dropped count: Int) {
        waiting.removeAll { ids.contains($0.id) }
        dropped -= min(dropped, count)
    }
}

extension ReportQueue {
    init(_ reader: MemberReader) throws {
        waiting = try reader.objects("waiting").map { reader throws(MemberReader.Refusal) in try DeviceReport(reader) }
        dropped = try reader.integer("dropped")
        reported = try reader.objects("told").map { reader throws(MemberReader.Refusal) in
            guard let fact = DeviceReport.Fact(rawValue: try reader.string("fact")) else {
                throw reader.refusal("fact", "is not a known word")
            }
            return ReportedFact(fact: fact, version: try reader.version("version"))
        }
        guard waiting.count <= ReportMessage.maximumReports, reported.count <= Self.remembered else {
            throw reader.refusal("waiting", "has more than a queue holds")
        }
    }

    var json: JSONValue {
        .object([
            "waiting": .array(waiting.map(\.json)), "dropped": .integer(dropped),
            "told": .array(
                reported.map {
                    .object(["fact": .string($0.fact.rawValue), "version": .string($0.version.description)])
                }),
        ])
    }
}
