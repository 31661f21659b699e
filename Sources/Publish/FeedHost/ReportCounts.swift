import BundleValues

/// What devices have reported, added up: a value. Who reports may lie, so the labels are words of closed lists and names that
/// the feed has.
struct ReportCounts: Sendable, Equatable {
    /// One counter.
    struct Key: Hashable, Sendable {
        let channel: String?
        let version: SemanticVersion
        let fact: DeviceReport.Fact
        let code: DeviceReport.Code?
        let route: DeviceReport.Route?
    }

    /// What a feed has, and so what a report may be about.
    struct Names: Sendable, Equatable {
        var channels: Set<String> = []
        var versions: Set<SemanticVersion> = []
    }

    /// A message that comes twice does so within minutes: its device was stopped before it could note the answer.
    private static let rememberedIds = 16_384

    private(set) var counters: [Key: Int] = [:]
    /// Reports that devices had to drop.
    private(set) var dropped = 0
    /// Reports about what the feed does not have.
    private(set) var foreign = 0
    /// Reports that came before.
    private(set) var repeated = 0
    private(set) var ids: [String] = []
    private var known: Set<String> = []

    init() {}

    /// Counts what is new in `message`; how many that are. A message whose reports are all known was counted before, dropped ones
    /// included.
    mutating func take(_ message: ReportMessage, in names: Names) -> Int {
        var counted = 0
        var isNew = message.reports.isEmpty
        for report in message.reports {
            guard known.insert(report.id).inserted else {
                repeated += 1
                continue
            }
            isNew = true
            remember(report.id)
            guard names.versions.contains(report.version), report.channel.map(names.channels.contains) ?? true else {
                foreign += 1
                continue
            }
            let key = Key(
                channel: report.channel, version: report.version, fact: report.fact, code: report.code,
                route: report.route)
            counters[key, default: 0] += 1
            counted += 1
        }
        if isNew { dropped += message.dropped }
        return counted
    }

    private mutating func remember(_ id: String) {
        ids.append(id)
        // Many at once, since taking one from the front moves all the others.
        if ids.count > Self.rememberedIds + Self.rememberedIds / 4 {
            known.subtract(ids.prefix(Self.rememberedIds / 4))
            ids.removeFirst(Self.rememberedIds / 4)
        }
    }

    private var sorted: [(key: Key, value: Int)] { counters.sorted { "\($0.key.labels)" < "\($1.key.labels)" } }

    /// The counts in the text format of Prometheus.
    var metrics: String {
        let samples = sorted.map { MetricFamily.Sample(Double($0.value), $0.key.labels) }
        return MetricsText.text(of: [
            MetricFamily(
                "clientctl_reports_total", .counter, "Facts that devices have reported, each once.", samples),
            MetricFamily(
                "clientctl_reports_dropped_total", .counter,
                "Facts that devices could not keep until they were reported.",
                [MetricFamily.Sample(Double(dropped))]),
            MetricFamily(
                "clientctl_reports_foreign_total", .counter,
                "Reports about a version or channel that the feed does not have.",
                [MetricFamily.Sample(Double(foreign))]),
            MetricFamily(
                "clientctl_reports_repeated_total", .counter, "Reports that had come before.",
                [MetricFamily.Sample(Double(repeated))]),
        ])
    }
}

extension ReportCounts.Key {
    fileprivate var labels: [(name: String, value: String)] {
        DeviceReport(id: "", fact: fact, version: version, channel: channel, route: route, code: code).labels
    }
}

extension ReportCounts {
    /// Reads what `json` gave.
    init(parsing bytes: [UInt8], maximumBytes: Int) throws {
        let reader = try MemberReader(JSONScanner.parse(bytes, maximumBytes: maximumBytes), of: "counts")
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        dropped = try reader.integer("dropped")
        foreign = try reader.integer("foreign")
        repeated = try reader.integer("repeated")
        ids = (reader.object["ids"]?.arrayValue ?? []).compactMap(\.stringValue)
        known = Set(ids)
        for counter in try reader.objects("counters") {
            var object = counter.object
            object["id"] = .string(String(repeating: "0", count: 32))
            object["count"] = nil
            let report = try DeviceReport(MemberReader(.object(object), of: "counts.counters"))
            let key = Key(
                channel: report.channel, version: report.version, fact: report.fact, code: report.code,
                route: report.route)
            counters[key, default: 0] += try counter.integer("count")
        }
    }

    /// The counts as the file has them.
    var json: JSONValue {
        .object([
            "schema": .integer(1), "dropped": .integer(dropped), "foreign": .integer(foreign),
            "repeated": .integer(repeated),
            "counters": .array(
                sorted.map { key, count in
                    .object([
                        "fact": .string(key.fact.rawValue), "version": .string(key.version.description),
                        "channel": .string(orNull: key.channel), "route": .string(orNull: key.route?.rawValue),
                        "code": .string(orNull: key.code?.rawValue), "count": .integer(count),
                    ])
                }), "ids": .array(ids.map(JSONValue.string)),
        ])
    }
}
