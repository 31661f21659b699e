import BundleValues

/// The totals of device reports. Reports can be forged, so labels come from closed lists and from names in the feed.
struct ReportCounts: Sendable, Equatable {
    /// A version and the channel that it came from.
    struct CountLine: Hashable, Sendable {
        let channel: String?
        let version: SemanticVersion
    }

    /// The event of a report. Each line has a counter for each event.
    struct Cell: Hashable, Sendable {
        let fact: DeviceReport.Fact
        let code: DeviceReport.Code?
        let route: DeviceReport.UpdateRoute?
        var platform: DeviceReport.Platform?
    }

    /// The channels and versions in a feed, which reports can be about.
    struct Names: Sendable, Equatable {
        var channels: Set<String> = []
        var versions: Set<SemanticVersion> = []

        func have(_ line: CountLine) -> Bool {
            versions.contains(line.version) && line.channel.map(channels.contains) ?? true
        }
    }

    /// The changes by a message.
    struct Intake: Equatable {
        /// The number of counted reports.
        var counted = 0
        /// Whether the counts changed.
        var isChanged = false
        /// Whether the counts must be stored before the response.
        var mustPersist = false
    }

    /// The largest number of lines. The oldest versions are evicted first.
    static let maximumLines = 500
    /// The number of remembered report IDs. A device repeats a message within minutes if it stopped before it stored the
    /// response.
    private static let rememberedIds = 16_384

    private(set) var lines: [CountLine: [Cell: Int]] = [:]
    /// The number of reports that devices dropped.
    private(set) var dropped = 0
    /// The number of reports about unknown or evicted versions.
    private(set) var foreign = 0
    /// The number of repeated reports.
    private(set) var repeated = 0
    private var ids: [String] = []
    private var known: Set<String> = []

    init() {}

    /// Counts the new reports of a message. A message with known reports only was counted before, including its dropped
    /// ones. Reports that are not counted are not remembered, so that they count when the feed has their version.
    /// The reports of phones are remembered in `phones`, because a phone repeats them with each start.
    mutating func add(_ message: ReportMessage, in names: Names, phones: inout SeenReports) -> Intake {
        var intake = Intake()
        var isNew = message.reports.isEmpty
        for report in message.reports {
            intake.isChanged = true
            let isPhone = report.platform != nil
            if isPhone ? phones.contains(report.id) : known.contains(report.id) {
                repeated = repeated.adding(count: 1)
                continue
            }
            isNew = true
            let line = CountLine(channel: report.channel, version: report.version)
            guard names.have(line), addLine(line, in: names) else {
                foreign = foreign.adding(count: 1)
                continue
            }
            if isPhone { phones.insert(report.id) } else { remember(report.id) }
            add(1, to: Cell(report), of: line)
            intake.counted += 1
        }
        let isDropping = isNew && message.dropped > 0
        if isDropping { dropped = dropped.adding(count: message.dropped) }
        intake.isChanged = intake.isChanged || isDropping
        intake.mustPersist = intake.counted > 0 || isDropping
        return intake
    }

    private mutating func add(_ count: Int, to cell: Cell, of line: CountLine) {
        lines[line, default: [:]][cell] = (lines[line]?[cell] ?? 0).adding(count: count)
    }

    /// Returns whether a line has counters. Lines that the feed no longer has are evicted first, then the lowest version.
    private mutating func addLine(_ line: CountLine, in names: Names) -> Bool {
        if lines[line] != nil || lines.count < Self.maximumLines { return true }
        let gone = lines.keys.filter { !names.have($0) }
        let lowest = (gone.isEmpty ? Array(lines.keys) : gone).min { $0.version < $1.version }
        guard let lowest, !gone.isEmpty || lowest.version < line.version else { return false }
        lines[lowest] = nil
        return true
    }

    private mutating func remember(_ id: String) {
        known.insert(id)
        ids.append(id)
        // Removes many at once, because removing the first element moves all others.
        if ids.count > Self.rememberedIds + Self.rememberedIds / 4 {
            known.subtract(ids.prefix(Self.rememberedIds / 4))
            ids.removeFirst(Self.rememberedIds / 4)
        }
    }

    /// Returns all counters in order. It compares lines only, of which there are few.
    func sorted(
        by isBefore: (CountLine, CountLine) -> Bool = { $0 < $1 }
    ) -> [(line: CountLine, cell: Cell, count: Int)] {
        lines.sorted { isBefore($0.key, $1.key) }.flatMap { line, cells in
            Cell.all.compactMap { cell in cells[cell].map { (line, cell, $0) } }
        }
    }

    /// The counts in the text format of Prometheus.
    var metrics: String {
        let samples = sorted().map { line, cell, count in
            MetricFamily.MetricSample(
                Double(count),
                labels: DeviceReport(
                    id: "", fact: cell.fact, version: line.version, channel: line.channel, route: cell.route,
                    code: cell.code, platform: cell.platform
                ).labels)
        }
        return MetricsText.text(of: [
            MetricFamily(
                "clientctl_reports_total", .counter, help: "Events that devices have reported, each counted once.",
                samples: samples),
            MetricFamily(
                "clientctl_reports_dropped_total", .counter,
                help: "Events that devices dropped before they could report them.",
                samples: [MetricFamily.MetricSample(Double(dropped))]),
            MetricFamily(
                "clientctl_reports_foreign_total", .counter,
                help: "Reports about a version or channel that the feed does not have.",
                samples: [MetricFamily.MetricSample(Double(foreign))]),
            MetricFamily(
                "clientctl_reports_repeated_total", .counter, help: "Reports that were received before.",
                samples: [MetricFamily.MetricSample(Double(repeated))]),
        ])
    }
}

extension ReportCounts.CountLine: Comparable {
    /// Sorts by channel, then by version.
    static func < (left: ReportCounts.CountLine, right: ReportCounts.CountLine) -> Bool {
        left.channel == right.channel
            ? left.version < right.version : left.channel ?? "" < right.channel ?? ""
    }
}

extension ReportCounts.Cell {
    /// All possible events in the order of the metrics.
    static let all: [ReportCounts.Cell] = DeviceReport.Fact.allCases.flatMap { fact in
        ([nil] + fact.codes).flatMap { code in
            (fact == .installed ? [nil] + DeviceReport.UpdateRoute.allCases : [nil]).flatMap { route in
                ([nil] + DeviceReport.Platform.allCases).map { platform in
                    ReportCounts.Cell(fact: fact, code: code, route: route, platform: platform)
                }
            }
        }
    }

    init(_ report: DeviceReport) {
        self.init(fact: report.fact, code: report.code, route: report.route, platform: report.platform)
    }
}

extension ReportCounts {
    /// Parses `json`.
    init(parsing bytes: [UInt8], maximumBytes: Int) throws {
        let reader = try MemberReader(JSONScanner.parse(bytes, maximumBytes: maximumBytes), of: "counts")
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        dropped = try reader.integer("dropped")
        foreign = try reader.integer("foreign")
        repeated = try reader.integer("repeated")
        ids = (reader.object["ids"]?.arrayValue ?? []).compactMap(\.stringValue).suffix(Self.rememberedIds)
        known = Set(ids)
        for counter in try reader.objects("counters") {
            var object = counter.object
            object["id"] = .string(String(repeating: "0", count: 32))
            object["count"] = nil
            let report = try DeviceReport(MemberReader(.object(object), of: "counts.counters"))
            add(
                try counter.integer("count"),
                to: Cell(report), of: CountLine(channel: report.channel, version: report.version))
        }
        for line in lines.keys.sorted(by: { $0.version > $1.version }).dropFirst(Self.maximumLines) {
            lines[line] = nil
        }
    }

    /// The content of the file.
    var json: JSONValue {
        .object([
            "schema": .integer(1), "dropped": .integer(dropped), "foreign": .integer(foreign),
            "repeated": .integer(repeated),
            "counters": .array(
                sorted().map { line, cell, count in
                    var counter: JSONObject = [
                        "fact": .string(cell.fact.rawValue), "version": .string(line.version.description),
                        "channel": .string(orNull: line.channel), "route": .string(orNull: cell.route?.rawValue),
                        "code": .string(orNull: cell.code?.rawValue), "count": .integer(count),
                    ]
                    counter["platform"] = (cell.platform?.rawValue).map(JSONValue.string)
                    return .object(counter)
                }), "ids": .array(ids.map(JSONValue.string)),
        ])
    }
}
