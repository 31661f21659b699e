/// One fact of a device, told once, without a word of who the device is.
package struct DeviceReport: Sendable, Equatable {
    /// What became of a version; the words stand in messages and metrics.
    package enum Fact: String, Sendable, CaseIterable {
        /// It was installed.
        case installed
        /// It was started for the first time.
        case started
        /// It proved itself.
        case confirmed
        /// It failed to start.
        case failed
        /// The device went back from it.
        case rolledBack
        /// It must not run on the device any more.
        case blocked
    }

    /// More of a fact: a closed list, so that it can be a label.
    package enum Code: String, Sendable, CaseIterable {
        /// The start was not confirmed in time.
        case notConfirmed
        /// The shell ended before the start was confirmed.
        case interrupted
        /// The shell or the page said so.
        case reported
        /// It could not be made ready to be shown.
        case notPrepared
        /// It failed too often.
        case failedStarts
        /// Somebody did it at the device.
        case byHand
        /// Its channel recalled it.
        case recalled
        /// It proved itself after a start of it had failed.
        case afterFailure
    }

    /// How its bytes came.
    package enum Route: String, Sendable, CaseIterable {
        case delta, archive
    }

    /// 32 hex digits, drawn for this report alone: a receiver knows by it what it has had before.
    package let id: String
    /// What happened.
    package let fact: Fact
    /// To which version.
    package let version: SemanticVersion
    /// The channel that is followed; nil where a manifest is.
    package let channel: String?
    /// The version that ran before; nil for the seed, and where the fact is about no change.
    package let previous: SemanticVersion?
    /// How the version came; nil where the fact is no installation.
    package let route: Route?
    /// More of it; nil where there is no more.
    package let code: Code?

    /// States a report.
    package init(
        id: String, fact: Fact, version: SemanticVersion, channel: String?, previous: SemanticVersion? = nil,
        route: Route? = nil, code: Code? = nil
    ) {
        self.id = id
        self.fact = fact
        self.version = version
        self.channel = channel
        self.previous = previous
        self.route = route
        self.code = code
    }

    /// A new id.
    package static func drawId() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}

extension DeviceReport {
    private static let members: Set<String> = ["id", "fact", "version", "channel", "previous", "route", "code"]

    /// Reads what `json` gives: strictly, since what is read becomes a label of somebody's metrics.
    package init(_ reader: MemberReader) throws(MemberReader.Refusal) {
        if let stranger = reader.object.members.first(where: { !Self.members.contains($0.name) }) {
            throw reader.refusal(UntrustedName.display(stranger.name), "is no member of a report")
        }
        let id = try reader.string("id")
        guard id.utf8.count == 32, id.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }) else {
            throw reader.refusal("id", "is not 32 hex digits")
        }
        let channel = try reader.optionalString("channel")
        if let channel, !ChannelFileName.isName(channel) { throw reader.refusal("channel", ChannelFileName.rule) }
        self.init(
            id: id, fact: try Self.word("fact", try reader.string("fact"), reader),
            version: try reader.version("version"),
            channel: channel, previous: try reader.optionalVersion("previous"),
            route: try Self.optionalWord("route", reader), code: try Self.optionalWord("code", reader))
        if route != nil && fact != .installed { throw reader.refusal("route", "does not go with \(fact)") }
        if let code, !fact.codes.contains(code) { throw reader.refusal("code", "does not go with \(fact)") }
    }

    private static func optionalWord<Word: RawRepresentable<String>>(
        _ member: String, _ reader: MemberReader
    ) throws(MemberReader.Refusal) -> Word? {
        guard let text = try reader.optionalString(member) else { return nil }
        return try word(member, text, reader)
    }

    private static func word<Word: RawRepresentable<String>>(
        _ member: String, _ text: String, _ reader: MemberReader
    ) throws(MemberReader.Refusal) -> Word {
        guard let word = Word(rawValue: text) else { throw reader.refusal(member, "is no known word") }
        return word
    }

    /// The report as a message and a ledger have it.
    package var json: JSONValue {
        .object([
            "id": .string(id), "fact": .string(fact.rawValue), "version": .string(version.description),
            "channel": .string(orNull: channel), "previous": .string(orNull: previous?.description),
            "route": .string(orNull: route?.rawValue), "code": .string(orNull: code?.rawValue),
        ])
    }
}

/// What a device sends: reports, and how many it had to drop. The format is that of Guide/reference/reports.md.
package struct ReportMessage: Sendable, Equatable {
    /// The most bytes of a message.
    package static let maximumBytes = 64 << 10
    /// The most reports of a message.
    package static let maximumReports = 64

    /// The application; nil where the device knows none.
    package let appId: String?
    /// The reports, oldest first.
    package let reports: [DeviceReport]
    /// Reports that were dropped unsent since the last message.
    package let dropped: Int

    /// States a message.
    package init(appId: String?, reports: [DeviceReport], dropped: Int) {
        self.appId = appId
        self.reports = reports
        self.dropped = dropped
    }

    /// Reads a message. Throws `JSONError` or `MemberReader.Refusal`.
    package init(parsing bytes: [UInt8]) throws {
        let reader = try MemberReader(JSONScanner.parse(bytes, maximumBytes: Self.maximumBytes), of: "message")
        let members: Set = ["schema", "appId", "dropped", "reports"]
        if let stranger = reader.object.members.first(where: { !members.contains($0.name) }) {
            throw reader.refusal(UntrustedName.display(stranger.name), "is no member of a message")
        }
        guard try reader.integer("schema") == 1 else { throw reader.refusal("schema", "is not 1") }
        let reports = try reader.objects("reports").map { reader throws(MemberReader.Refusal) in
            try DeviceReport(reader)
        }
        guard reports.count <= Self.maximumReports else {
            throw reader.refusal("reports", "has more than \(Self.maximumReports)")
        }
        let appId = try reader.optionalString("appId")
        if let appId, appId.utf8.count > 256 { throw reader.refusal("appId", "has more than 256 bytes") }
        self.init(appId: appId, reports: reports, dropped: min(1_000_000, try reader.integer("dropped")))
    }

    /// The message as JSON.
    package var bytes: [UInt8] {
        JSONWriter.bytes(
            of: .object([
                "schema": .integer(1), "appId": .string(orNull: appId), "dropped": .integer(dropped),
                "reports": .array(reports.map(\.json)),
            ]))
    }

    /// The message as samples for an import path of VictoriaMetrics (`/api/v1/import/prometheus`): each report is a sample of 1.
    package var samples: [UInt8] {
        let family = MetricFamily(
            "clientctl_report", .gauge, "One for each report of a device.",
            reports.map { MetricFamily.Sample(1, [("app", appId ?? "")] + $0.labels) })
        return Array(MetricsText.text(of: [family]).utf8)
    }
}

extension DeviceReport.Fact {
    /// The codes that go with it.
    package var codes: [DeviceReport.Code] {
        switch self {
        case .installed, .started: []
        case .confirmed: [.afterFailure]
        case .failed: [.notConfirmed, .interrupted, .reported, .notPrepared]
        case .rolledBack: [.notConfirmed, .interrupted, .reported, .notPrepared, .byHand, .recalled]
        case .blocked: [.failedStarts, .byHand]
        }
    }
}

extension DeviceReport {
    /// What is told of it as labels; an absent word is an empty one.
    package var labels: [(name: String, value: String)] {
        [
            ("channel", channel ?? ""), ("version", version.description), ("fact", fact.rawValue),
            ("code", code?.rawValue ?? ""), ("route", route?.rawValue ?? ""),
        ]
    }
}
