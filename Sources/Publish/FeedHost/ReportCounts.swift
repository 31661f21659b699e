import BundleValues

/// What devices have reported, added up: a value. Who reports may lie, so the labels are words of closed lists and names that
/// the feed has.
struct ReportCounts: Sendable, Equatable {
    /// What devices report about: a version, and the channel that it came by.
    struct Line: Hashable, Sendable {
        let channel: String?
        let version: SemanticVersion
    }

    /// What they report of it; each has a counter in each line.
    struct Cell: Hashable, Sendable {
        let fact: DeviceReport.Fact
        let code: DeviceReport.Code?
        let route: DeviceReport.Route?
    }

    /// What a feed has, and so what a report may be about.
    struct Names: Sendable, Equatable {
        var channels: Set<String> = []
        var versions: Set<SemanticVersion> = []

        func have(_ line: Line) -> Bool {
            versions.contains(line.version) && line.channel.map(channels.contains) ?? true
        }
    }

    /// What a message has changed.
    struct Intake: Equatable {
        /// Its reports that count.
        var counted = 0
        /// Whether the counts are others now.
        var isNews = false
        /// Whether they have to be on the disk before its sender is answered.
        var isOwed = false
    }

    /// So many lines have counters; of more, those with the newest versions that the feed has.
    static let maximumLines = 500
    /// A message that comes twice does so within minutes: its device was stopped before it could note the answer.
    private static let rememberedIds = 16_384

    private(set) var lines: [Line: [Cell: Int]] = [:]
    /// Reports that devices had to drop.
    private(set) var dropped = 0
    /// Reports about what the feed does not have, or about versions too old to be counted beside all others.
    private(set) var foreign = 0
    /// Reports that came before.
    private(set) var repeated = 0
    private var ids: [String] = []
    private var known: Set<String> = []

    init() {}

    /// Counts what is new in `message`. A message whose reports are all known was counted before, dropped ones included. A report
    /// that does not count is not remembered: it may come again when the feed has its version.
    mutating func take(_ message: ReportMessage, in names: Names) -> Intake {
        var intake = Intake()
        var isNew = message.reports.isEmpty
        for report in message.reports {
            intake.isNews = true
            if known.contains(report.id) {
                repeated = repeated.adding(count: 1)
                continue
            }
            isNew = true
            let line = Line(channel: report.channel, version: report.version)
            guard names.have(line), admit(line, names) else {
                foreign = foreign.adding(count: 1)
                continue
            }
            remember(report.id)
            add(1, to: Cell(fact: report.fact, code: report.code, route: report.route), of: line)
            intake.counted += 1
        }
        let isDropping = isNew && message.dropped > 0
        if isDropping { dropped = dropped.adding(count: message.dropped) }
        intake.isNews = intake.isNews || isDropping
        intake.isOwed = intake.counted > 0 || isDropping
        return intake
    }

    private mutating func add(_ count: Int, to cell: Cell, of line: Line) {
        lines[line, default: [:]][cell] = (lines[line]?[cell] ?? 0).adding(count: count)
    }

    /// Whether a line has counters now. What the feed does not have any more makes room first, then the lowest version.
    private mutating func admit(_ line: Line, _ names: Names) -> Bool {
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
        // Many at once, since taking one from the front moves all the others.
        if ids.count > Self.rememberedIds + Self.rememberedIds / 4 {
            known.subtract(ids.prefix(Self.rememberedIds / 4))
            ids.removeFirst(Self.rememberedIds / 4)
        }
    }

    /// Every counter in its place. Only lines are compared, of which there are few.
    func sorted(
        by isBefore: (Line, Line) -> Bool = { $0 < $1 }
    ) -> [(line: Line, cell: Cell, count: Int)] {
        lines.sorted { isBefore($0.key, $1.key) }.flatMap { line, cells in
            Cell.all.compactMap { cell in cells[cell].map { (line, cell, $0) } }
        }
    }

    /// The counts in the text format of Prometheus.
    var metrics: String {
        let samples = sorted().map { line, cell, count in
            MetricFamily.Sample(
                Double(count),
                DeviceReport(
                    id: "", fact: cell.fact, version: line.version, channel: line.channel, route: cell.route,
                    code: cell.code
                ).labels)
        }
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

extension ReportCounts.Line: Comparable {
    /// By channel, then by version.
    static func < (left: ReportCounts.Line, right: ReportCounts.Line) -> Bool {
        left.channel == right.channel
            ? left.version < right.version : left.channel ?? "" < right.channel ?? ""
    }
}

extension ReportCounts.Cell {
    /// All that can be, in the order of the metrics.
    static let all: [ReportCounts.Cell] = DeviceReport.Fact.allCases.flatMap { fact in
        ([nil] + fact.codes).flatMap { code in
            (fact == .installed ? [nil] + DeviceReport.Route.allCases : [nil]).map { route in
                ReportCounts.Cell(fact: fact, code: code, route: route)
            }
        }
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
        ids = (reader.object["ids"]?.arrayValue ?? []).compactMap(\.stringValue).suffix(Self.rememberedIds)
        known = Set(ids)
        for counter in try reader.objects("counters") {
            var object = counter.object
            object["id"] = .string(String(repeating: "0", count: 32))
            object["count"] = nil
            let report = try DeviceReport(MemberReader(.object(object), of: "counts.counters"))
            add(
                try counter.integer("count"),
                to: Cell(fact: report.fact, code: report.code, route: report.route),
                of: Line(channel: report.channel, version: report.version))
        }
        for line in lines.keys.sorted(by: { $0.version > $1.version }).dropFirst(Self.maximumLines) {
            lines[line] = nil
        }
    }

    /// The counts as the file has them.
    var json: JSONValue {
        .object([
            "schema": .integer(1), "dropped": .integer(dropped), "foreign": .integer(foreign),
            "repeated": .integer(repeated),
            "counters": .array(
                sorted().map { line, cell, count in
                    .object([
                        "fact": .string(cell.fact.rawValue), "version": .string(line.version.description),
                        "channel": .string(orNull: line.channel), "route": .string(orNull: cell.route?.rawValue),
                        "code": .string(orNull: cell.code?.rawValue), "count": .integer(count),
                    ])
                }), "ids": .array(ids.map(JSONValue.string)),
        ])
    }
}
